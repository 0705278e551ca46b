"""One function a cause, thresholds as constants with their reasons. Importing this package
registers them all.
"""

from tracebudget.core.detectors import context, loop, model, tool

__all__ = ["context", "loop", "model", "tool"]
