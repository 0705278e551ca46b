"""Whose request it is: app, name, release, session, agents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.builders import Branch, agent, chat, plain, tool, workflow
from tests.core.reading import Document, analyzed, notes
from tracebudget.core.tree import MISSING


def test_the_app_is_the_roots_service() -> None:
    """Spans of other services below it change nothing."""
    document = analyzed(agent(0, 100, tool(0, 50, service="warehouse"), service="support-agent"))
    assert document["app"] == "support-agent"


@pytest.mark.parametrize("resource", [{"service.name": ""}, {"service.name": 7}])
def test_without_a_service_name_the_app_is_unknown(resource: dict[str, Any]) -> None:
    assert analyzed(agent(0, 100, service="", resource=resource))["app"] == "unknown"


def test_the_app_of_a_lost_root_is_that_of_what_is_here() -> None:
    document = analyzed(
        chat(0, 50, parent="gone", service="a"), chat(60, 90, parent="gone", service="b")
    )
    assert document["app"] == "a"


def test_the_name_is_the_roots() -> None:
    assert analyzed(agent(0, 100, name="support"))["name"] == "invoke_agent support"


def test_the_name_of_a_lost_root_is_that_of_its_first_span() -> None:
    document = analyzed(
        plain(0, 50, name="load", parent="gone"), plain(60, 90, name="ask", parent="gone")
    )
    assert document["name"] == "load"


@pytest.mark.parametrize(
    ("resource", "environment"),
    [
        ({"deployment.environment.name": "production"}, "production"),
        ({"deployment.environment": "staging"}, "staging"),
        (
            {"deployment.environment.name": "production", "deployment.environment": "old"},
            "production",
        ),
        ({}, None),
    ],
)
def test_the_environment_under_its_new_and_its_old_key(
    resource: dict[str, str], environment: str | None
) -> None:
    assert analyzed(agent(0, 100, resource=resource))["environment"] == environment


def test_the_version_is_the_releases() -> None:
    assert analyzed(agent(0, 100, resource={"service.version": "1.4.2"}))["version"] == "1.4.2"
    assert analyzed(agent(0, 100))["version"] is None


# --- session --------------------------------------------------------------------------------------


def session(*tops: Branch) -> str | None:
    found: str | None = analyzed(*tops)["session_id"]
    return found


@pytest.mark.parametrize(
    "key",
    [
        "gen_ai.conversation.id",
        "session.id",
        "langfuse.session.id",
        "mlflow.trace.session",
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.thread_id",
        "ai.telemetry.metadata.sessionId",
        "langsmith.metadata.thread_id",
        "langsmith.metadata.session_id",
        "langsmith.metadata.conversation_id",
        "gcp.vertex.agent.session_id",
        "thread.id",
        "conversation.id",
        "spring.ai.chat.client.conversation.id",
    ],
)
def test_every_spelling_of_a_session(key: str) -> None:
    assert session(agent(0, 100, attributes={key: "s-1"})) == "s-1"


@pytest.mark.parametrize(
    "key",
    ["langsmith.trace.session_id", "mcp.session.id"],
)
def test_a_project_and_a_transport_are_no_session(key: str) -> None:
    assert session(agent(0, 100, attributes={key: "s-1"})) is None


@pytest.mark.parametrize(("value", "expected"), [('"s-1"', "s-1"), (17, "17"), ("", None)])
def test_a_session_is_text(value: object, expected: str | None) -> None:
    """MLflow writes JSON text with its quotes."""
    assert session(agent(0, 100, attributes={"session.id": value})) == expected


def test_the_roots_session_holds_for_the_request() -> None:
    """A called agent may hold a conversation of its own."""
    inner = agent(10, 90, chat(20, 80), attributes={"session.id": "inner"})
    document = analyzed(agent(0, 100, inner, attributes={"session.id": "outer"}))
    assert document["session_id"] == "outer"
    assert "session_conflict" not in notes(document)


def test_without_one_at_the_root_the_first_that_is_named() -> None:
    assert session(plain(0, 100, agent(10, 90, attributes={"session.id": "s-1"}))) == "s-1"


def test_several_side_by_side_are_noted() -> None:
    document = analyzed(
        plain(
            0,
            100,
            agent(0, 50, attributes={"session.id": "one"}),
            agent(50, 100, attributes={"session.id": "two"}, id="b"),
        )
    )
    assert document["session_id"] == "one"
    assert notes(document)["session_conflict"]["span_ids"] == ["b"]


def test_a_redacted_session_is_none() -> None:
    redacted = {"redacted": 3, "digest": "ab", "parsed": None}
    assert session(agent(0, 100, attributes={"session.id": redacted})) is None


# --- agents ---------------------------------------------------------------------------------------


def agents(document: Document) -> list[str]:
    found: list[str] = document["agents"]
    return found


def test_agents_and_workflows_that_worked_are_named() -> None:
    assert agents(analyzed(agent(0, 100, chat(0, 50), name="triage"))) == ["triage"]
    assert agents(analyzed(workflow(0, 100, chat(0, 50), name="graph"))) == ["graph"]


def test_an_agent_without_a_name_goes_by_its_span() -> None:
    document = analyzed(
        plain(
            0,
            100,
            chat(0, 50),
            name="invoke_agent helper",
            attributes={"gen_ai.operation.name": "invoke_agent"},
        )
    )
    assert agents(document) == ["helper"]


def test_tools_and_requests_are_no_agents() -> None:
    assert agents(analyzed(plain(0, 100, tool(0, 90, chat(0, 50)), chat(90, 100)))) == []


def test_the_document_says_it_all_in_json() -> None:
    document = analyzed(agent(0, 100, resource={"service.version": "1", "odd": [1, {"a": None}]}))
    assert json.loads(json.dumps(document)) == document


def test_a_trace_of_nothing_that_counts_has_a_name() -> None:
    """CrewAI's own telemetry: two spans without a parent, and both are ignored."""
    document = analyzed(plain(0, 0, name="Crew Created"), plain(1, 1, name="Crew Created"))
    assert document["name"] == MISSING
