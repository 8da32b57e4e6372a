"""State scopes of an event: a key for each identity that it has, a reason for each that it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.scopes import scopes_for
from hostler_protocol.events import Actor, EventEnvelope, Input, Subject

FULL: dict[str, Any] = {
    "conversation_id": "c",
    "actor": Actor(actor_type="user", actor_id="ann"),
    "subject": Subject(subject_type="ticket", subject_id="7"),
}


def keys(runner: str = "r", agent: str = "a", workspace: str = "w", **fields: Any) -> dict[Any, str]:
    envelope = EventEnvelope(event_type="message.received", input=Input(), source="api", **fields)
    return scopes_for(workspace_id=workspace, runner_id=runner, agent_id=agent, envelope=envelope).keys


@pytest.mark.parametrize(
    ("missing", "scope", "lacks"),
    [
        ({"conversation_id": None}, "conversation", "conversation_id"),
        ({"conversation_id": ""}, "conversation", "conversation_id"),
        ({"actor": None}, "actor", "actor"),
        ({"actor": Actor(actor_type="user", actor_id="")}, "actor", "actor.actor_id"),
        ({"subject": None}, "subject", "subject"),
        ({"subject": Subject(subject_type="ticket", subject_id="")}, "subject", "subject.subject_id"),
    ],
)
def test_a_missing_identity_is_named(missing: dict[str, Any], scope: str, lacks: str) -> None:
    envelope = EventEnvelope(
        event_type="message.received", input=Input(), source="api", **{**FULL, **missing}
    )
    found = scopes_for(workspace_id="w", runner_id="r", agent_id="a", envelope=envelope)
    assert found.missing == {scope: f"the event has no {lacks}, so it has no {scope} state"}
    assert len(found.keys) == 3


def test_keys_differ_in_all_that_separates_state_and_in_nothing_else() -> None:
    base = keys(**FULL)
    assert keys(**FULL, thread_id=None, sender_id="x", session_id="y") == base
    for other in ({"runner": "r2"}, {"agent": "a2"}, {"workspace": "w2"}, {"bot_id": "b"}):
        assert not set(keys(**FULL, **other).values()) & set(base.values())
    threaded = keys(**FULL, thread_id="t")
    assert threaded["conversation"] != base["conversation"]
    assert threaded["actor"] == base["actor"]
    assert len(set(base.values())) == 4
