"""Core tests need no database, no server and no clock: spans in, an analysis object out."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The same examples on every machine, few enough for every run. HYPOTHESIS_EXAMPLES=5000 looks
# further.
settings.register_profile(
    "ci",
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "60")),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")
