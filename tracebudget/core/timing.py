"""The first token of every call: claims of the client, figures of the engine, else the fit."""

from __future__ import annotations

from dataclasses import replace

from tracebudget.core.profile import Profile
from tracebudget.core.span import KIND_CLIENT, STATUS_ERROR
from tracebudget.core.step import HTTP_ERROR, ModelFacts, StepKind, span_http_status
from tracebudget.core.tree import Node, Note, Tree
from tracebudget.core.ttft import NO_TTFT, Outline, Ttft, TtftSource, resolve_claims

MS = 1_000_000
WALL_GRACE_NS = (
    5 * MS
)  # reported phases may exceed the wall clock by so much before it is worth a note


def settle_timing(tree: Tree, profile: Profile | None) -> None:
    """Set every model call's TTFT, and note what could not be believed."""
    for node in tree.nodes:
        step = node.step
        if step is None or step.kind is not StepKind.MODEL_CALL:
            continue
        if node.server is not None and node.server is not node:
            node.take(replace(step, model=_with_engine(node.facts, node.server)))
        node.ttft = _settled(node, tree, profile)
        refused = node.facts.tokens.refused
        if refused:
            tree.notes.append(Note("tokens_refused", (node.id,), {"keys": list(refused)}))


def _with_engine(own: ModelFacts, server: Node) -> ModelFacts:
    """The engine's queue and phases, where the server's span tells them."""
    theirs = server.step.model if server.step is not None else None
    if theirs is None:
        return own
    return replace(
        own,
        queue_ns=own.queue_ns if own.queue_ns is not None else theirs.queue_ns,
        prefill_ns=own.prefill_ns if own.prefill_ns is not None else theirs.prefill_ns,
        decode_ns=own.decode_ns if own.decode_ns is not None else theirs.decode_ns,
    )


def _settled(node: Node, tree: Tree, profile: Profile | None) -> Ttft:
    facts = node.facts
    measured = _measured(node, tree) if facts.ttft_claims and node.server is not node else NO_TTFT
    if measured.ns is not None:
        return measured
    reported = _reported(node, node.server, tree) if node.server is not None else None
    if reported is not None:
        return replace(reported, first_visible_ns=measured.first_visible_ns)
    if profile is None or node.step is None or node.step.is_error:
        return measured
    return _inferred(node, profile, measured)


def _inferred(node: Node, profile: Profile, measured: Ttft) -> Ttft:
    """By the fit, from the last attempt that the span shows."""
    facts, offset = node.facts, _last_attempt_offset(node, node.facts)
    estimate = profile.estimate(facts.model, facts.tokens, node.duration - offset)
    if estimate is None:
        return measured
    return Ttft(
        estimate.prefill_ns,
        TtftSource.INFERRED,
        where="fit",
        split_ns=offset + estimate.prefill_ns,
        first_visible_ns=measured.first_visible_ns,
        interval_ns=(estimate.low_ns, estimate.high_ns),
    )


def _asks_for_tools(node: Node) -> bool:
    """Asked only where a claim depends on it: the answer may have to be searched."""
    matters = any(claim.is_end_before_tools for claim in node.facts.ttft_claims)
    return matters and node.step is not None and node.step.asks_for_tools() is True


def _measured(node: Node, tree: Tree) -> Ttft:
    """What the client's own claims come to. Notes those that cannot be true."""
    facts = node.facts
    outline = Outline(
        duration_ns=node.duration,
        offset_ns=_last_attempt_offset(node, facts),
        output_tokens=facts.tokens.output,
        streamed=facts.streamed,
        asks_for_tools=_asks_for_tools(node),
    )
    measured, refused = resolve_claims(facts.ttft_claims, outline)
    for refusal in refused:
        evidence = {"from": refusal.where, "value_ns": refusal.value_ns}
        tree.notes.append(Note(refusal.code, (node.id,), evidence))
    if measured.unit_guessed:
        evidence = {"from": measured.where, "taken_as_ns": measured.ns}
        tree.notes.append(Note("suspect_unit", (node.id,), evidence))
    return measured


def _last_attempt_offset(node: Node, facts: ModelFacts) -> int:
    """Where the last attempt inside this one span began, from the call's start: as the emitter
    says, or the HTTP spans below show after a failed one.
    """
    if facts.attempt_start_ns is not None:
        return max(0, min(facts.attempt_start_ns - node.span.start_ns, node.duration))
    attempts = http_attempts(node)
    failed = [attempt for attempt in attempts if attempt_failed(attempt)]
    if failed and attempts[-1] is not failed[-1]:
        return max(0, attempts[-1].start - node.start)
    return 0


def http_attempts(node: Node) -> list[Node]:
    """The HTTP requests below a model call, in order: more than one means that it was retried."""
    return [
        child
        for child in node.children
        if child.span.kind == KIND_CLIENT and child.step is None and _is_http(child)
    ]


def _is_http(node: Node) -> bool:
    attributes = node.span.attributes
    return "http.request.method" in attributes or "http.method" in attributes


def attempt_failed(node: Node) -> bool:
    return (span_http_status(node.span) or 0) >= HTTP_ERROR or node.span.status == STATUS_ERROR


def _reported(node: Node, server: Node, tree: Tree) -> Ttft | None:
    """The engine's own TTFT, counted from the client's start: what lies before the server's start
    is network.
    """
    theirs = server.step.model if server.step is not None else None
    if theirs is None:
        return None
    network = max(0, server.start - node.start)
    claimed = theirs.ttft_claims[0].after_ns if theirs.ttft_claims else None
    where = theirs.ttft_claims[0].where if theirs.ttft_claims else "queue + prefill"
    if claimed is None and theirs.prefill_ns is not None:
        claimed = (theirs.queue_ns or 0) + theirs.prefill_ns
    if claimed is None:
        return None
    total = network + claimed
    if not 0 < total <= node.duration + MS:
        tree.notes.append(
            Note(
                "reported_exceeds_wall",
                (node.id,),
                {"ttft_ns": total, "duration_ns": node.duration},
            )
        )
        return None
    total = min(total, node.duration)
    return Ttft(total, TtftSource.REPORTED, where=where, split_ns=total)
