"""Whose request it is: app, name, release, session, agents, and whether all of it is here."""

from __future__ import annotations

from collections.abc import Iterable

from tracebudget.core.dialects import common
from tracebudget.core.dialects.facts import is_redacted, unquoted
from tracebudget.core.record import record
from tracebudget.core.report import Report
from tracebudget.core.span import KIND_CONSUMER, KIND_SERVER, Span
from tracebudget.core.step import ACTORS
from tracebudget.core.tree import Node, Note, Tree

SESSION_KEYS = frozenset(common.SESSION_KEYS)
UNKNOWN_APP = "unknown"  # the root's sender gave no service.name


@record
class Identity:
    app: str
    name: str
    environment: str | None
    version: str | None
    session_id: str | None
    agents: tuple[str, ...]
    state: str  # complete, incomplete or running
    state_reason: str | None


def identify(report: Report) -> Identity:
    root = report.tree.root
    resource = root.span.resource
    state, reason = _state(report.tree)
    return Identity(
        app=app_of(report.tree),
        name=_name(root),
        environment=_text(
            resource.get("deployment.environment.name") or resource.get("deployment.environment")
        ),
        version=_text(resource.get("service.version")),
        session_id=_session(report),
        agents=tuple(dict.fromkeys(_agents(report))),
        state=state,
        state_reason=reason,
    )


def _name(root: Node) -> str:
    """What stands in for a root that is not here is called after its first span, if one counts."""
    named = root.children[0] if root.is_placeholder and root.children else root
    return named.span.name


def app_of(tree: Tree) -> str:
    """The app that owns a trace: its root's `service.name`."""
    return tree.root.span.service or UNKNOWN_APP


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _state(tree: Tree) -> tuple[str, str | None]:
    """Complete when the root has no parent id, or its parent is marked remote, or it serves a call,
    or, its parent missing, it covers at least one other span and all of them.
    """
    root = tree.root
    if tree.is_running:
        return "running", "root_not_ended"
    if root.is_placeholder:
        return "incomplete", "missing_parent" if root.id else "missing_root"
    if root.span.end_ns == 0 and root.span.start_ns != 0:
        return "incomplete", "root_not_ended"
    if (
        not tree.orphan_root
        or root.span.parent_is_remote
        or root.span.kind in {KIND_SERVER, KIND_CONSUMER}
    ):
        return "complete", None
    covers = [node for node in tree.nodes if node is not root and not node.is_placeholder]
    if covers and all(root.start <= node.start and node.end <= root.end for node in covers):
        return "complete", None
    return "incomplete", "missing_parent"


def _agents(report: Report) -> Iterable[str]:
    for turn in report.turns:
        step = turn.run.top.step
        if step is not None and step.kind in ACTORS:
            yield step.name


def _session(report: Report) -> str | None:
    """The root's conversation id, else the first that a span names. An agent that another one
    called may hold a conversation of its own; several side by side are noted.
    """
    of_all = session_of(report.tree.root.span)
    if of_all is not None:
        return of_all
    found = _topmost_sessions(report.tree)
    sessions = {session for _, session in found}
    if len(sessions) > 1:
        ids = tuple(sorted(span_id for span_id, session in found if session != found[0][1]))
        report.notes.append(Note("session_conflict", ids, {"sessions": len(sessions)}))
    return found[0][1] if found else None


def _topmost_sessions(tree: Tree) -> list[tuple[str, str]]:
    """The span id and session of the spans with no session above them."""
    if all(SESSION_KEYS.isdisjoint(node.span.attributes) for node in tree.nodes):
        return []
    found: list[tuple[str, str]] = []
    below: set[Node] = set()
    for node in tree.nodes:
        if node.parent is not None and node.parent in below:
            below.add(node)
        elif (session := session_of(node.span)) is not None:
            below.add(node)
            found.append((node.id, session))
    return found


def session_of(span: Span) -> str | None:
    """The conversation that a span belongs to, under the first key that names one."""
    if SESSION_KEYS.isdisjoint(span.attributes):
        return None
    for key in common.SESSION_KEYS:
        if key not in span.attributes:
            continue
        value = span.attributes[key]
        if value is not None and not is_redacted(value):
            text = unquoted(value)
            if isinstance(text, str | int) and text != "":
                return str(text)
    return None
