"""Core tests need no database, no server and no clock: spans in, an analysis object out."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The same examples on every machine, few enough for every run. HYPOTHESIS_EXAMPLES=5000 looks
# further, elsewhere each time.
MORE = os.environ.get("HYPOTHESIS_EXAMPLES")
settings.register_profile(
    "ci",
    max_examples=int(MORE or 60),
    derandomize=MORE is None,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")
