"""What can go wrong, as changed conditions of an otherwise healthy request.

A fault bends one thing: how the agent's loop behaves, how a service answers. What that costs is the
simulation's business. `codes` are the findings that must come of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MS = 1_000_000


class Cache(StrEnum):
    """What the service can reuse of a prompt that it has seen before."""

    KEPT = "kept"
    REWRITTEN = "rewritten"  # the agent renders its history anew each turn: only the first message
    OFF = "off"  # a header, or a router between replicas, keeps the cache from being used


class Failure(StrEnum):
    """What happens to the first tool of a request."""

    NONE = ""
    TIMEOUT = "TimeoutError"  # runs into its limit; the agent goes on without it
    ERROR = "ConnectionError"  # fails, and is called again at once


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which a request is played. The defaults are health."""

    # the agent's loop
    parallel_tools: bool = True
    asks_again: bool = False  # for what it has just been told
    broken_arguments: bool = False
    generates_twice: bool = False  # once for show, once for the record
    wandering_rounds: int = 0
    overhead_ns: int = 0  # a turn
    handoff_ns: int = 0
    large_model: bool = False  # for what a small one answers as well
    answer_factor: int = 1
    # its tools
    tool_failure: Failure = Failure.NONE
    tool_factor: int = 1
    floods: bool = False  # a tool prints all it has
    # the inference service
    cache: Cache = Cache.KEPT
    rejections: int = 0  # 429s before the first answer
    gateway_ns: int = 0  # a call
    prefill_factor: int = 1
    tpot_factor: int = 1
    halting: bool = False


HEALTH = Conditions()


@dataclass(frozen=True, slots=True)
class Fault:
    """A name for a request's conditions, and the findings that they must lead to."""

    conditions: Conditions
    codes: frozenset[str]


def _fault(codes: str, conditions: Conditions) -> Fault:
    return Fault(conditions, frozenset(codes.split()))


NO_FAULT = ""
FAULTS: Mapping[str, Fault] = {
    NO_FAULT: _fault("", HEALTH),
    "serial tools": _fault("serial_tools", Conditions(parallel_tools=False)),
    "repeated tool": _fault("repeated_tool_call", Conditions(asks_again=True)),
    "broken arguments": _fault("malformed_tool_arguments", Conditions(broken_arguments=True)),
    "two generations": _fault("double_generation", Conditions(generates_twice=True)),
    "wandering": _fault("many_turns", Conditions(wandering_rounds=9)),
    "heavy framework": _fault("framework_overhead", Conditions(overhead_ns=1_900 * MS)),
    "slow hand-off": _fault("handoff_gap", Conditions(handoff_ns=420 * MS)),
    "large model": _fault("oversized_model", Conditions(large_model=True)),
    "long answer": _fault("model_bound", Conditions(answer_factor=17)),
    "tool timeout": _fault("tool_timeout", Conditions(tool_failure=Failure.TIMEOUT)),
    "tool retry": _fault("tool_retry", Conditions(tool_failure=Failure.ERROR)),
    "slow tool": _fault("tools_dominate model_not_bottleneck", Conditions(tool_factor=9)),
    "huge result": _fault("tool_result_inflates_context", Conditions(floods=True)),
    "rewritten history": _fault("context_growth", Conditions(cache=Cache.REWRITTEN)),
    "no prefix cache": _fault("prefix_cache_unused context_growth", Conditions(cache=Cache.OFF)),
    "rate limit": _fault("model_retry", Conditions(rejections=2)),
    "slow gateway": _fault("network_gap", Conditions(gateway_ns=420 * MS)),
    "slow prefill": _fault("slow_first_token", Conditions(prefill_factor=40)),
    "slow decode": _fault("slow_decode", Conditions(tpot_factor=4)),
    "halting decode": _fault("decode_stutter", Conditions(halting=True)),
}
