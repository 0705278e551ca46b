"""Python's garbage collector, set for programs that analyse traces."""

from __future__ import annotations

import gc

# An analysis makes a few dozen objects a span, and all live until it ends: looking for garbage in
# between costs a third of its time and finds none. So many is what a trace of some 2,000 spans
# makes. What is no garbage by reference count waits longer: some 10 MiB at most.
OBJECTS_BEFORE_A_LOOK = 100_000


def relax_collector() -> None:
    """Let this process look for cyclic garbage less often."""
    gc.set_threshold(OBJECTS_BEFORE_A_LOOK)
