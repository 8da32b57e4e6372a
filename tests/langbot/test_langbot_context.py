"""The context of a run in LangBot's form."""

from __future__ import annotations

from typing import Any

from hostler_langbot.context import EXTERNAL_ID, context_of
from hostler_protocol.events import Actor, AgentRunContext, Conversation, EventRef, StateSnapshot

UUID = "01a221c7-037b-7188-82d6-b8963fa3f7ec"
OTHER = "5f0c7c1e-6a0a-4f1e-9d3b-0d2b8a1b4c5d"


def given(conversation_id: str, event_type: str = "message.received", **fields: Any) -> AgentRunContext:
    return AgentRunContext(
        run_id="r1",
        event=EventRef(event_id="e1", event_type=event_type),
        conversation=Conversation(conversation_id=conversation_id),
        **fields,
    )


def state_seen(conversation_id: str, **state: Any) -> dict[str, Any]:
    context = given(conversation_id, state=StateSnapshot(conversation=dict(state)))
    found: dict[str, Any] = context_of(context)["state"]["conversation"]
    assert context.state.conversation == state  # what the host sent stays as it is
    return found


def test_a_preset_id_is_not_taken_for_one_of_the_service() -> None:
    assert state_seen(UUID, **{EXTERNAL_ID: UUID, "k": 1}) == {"k": 1}
    assert state_seen(UUID, **{EXTERNAL_ID: OTHER}) == {EXTERNAL_ID: OTHER}
    assert state_seen("person_7", **{EXTERNAL_ID: "person_7"}) == {EXTERNAL_ID: "person_7"}
    assert state_seen("person_7", **{EXTERNAL_ID: OTHER}) == {EXTERNAL_ID: OTHER}


def test_a_message_has_a_sender_who_stays_the_same() -> None:
    first, second = context_of(given("c1")), context_of(given("c1"))
    assert first["actor"] == second["actor"] == {"actor_type": "user", "actor_id": "c1"}
    own = Actor(actor_type="user", actor_id="ada")
    assert context_of(given("c1", actor=own))["actor"]["actor_id"] == "ada"
    assert "actor" not in context_of(given("c1", event_type="schedule.due"))
