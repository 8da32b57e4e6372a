"""State isolation: two identities that differ in anything never meet, and equal ones always do."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostler.domain.keys import state_key_of, state_value_of
from hostler.domain.scopes import StateArea, StateScopes, area_of, scopes_for
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import state_values
from hostler_protocol.events import Actor, EventEnvelope, Input, Subject
from hostler_protocol.grants import STATE_SCOPES, StateScope
from support.databases import TEST_SECONDS
from support.examples import examples

pytestmark = pytest.mark.gate("state-keys")

# Pieces that forge separators, JSON, escapes, other spellings of the same letters, and directions of writing.
PIECES = [
    *(
        "a",
        "b",
        ":",
        "/",
        "|",
        ",",
        "\\",
        '"',
        "'",
        "{",
        "}",
        "[",
        "]",
        "%",
        "_",
        "*",
        " ",
        "\t",
        "\n",
        "-",
        "0",
        "1",
    ),
    *("null", "None", "\\u0000", "\\x00", "%00", '","', '":"', '{"thread":null}', "conversation", "actor"),
    *("é", "e\u0301", "ﬁ", "fi", "Ａ", "A", "А", "ß", "ss", "İ", "i̇", "Å", "Å", "가", "가"),
    *("\u202e", "\u200b", "\u200d", "\ufeff", "א", "ب", "😀", "\U0010ffff", "\x01", "\x7f"),
]
names = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join) | st.text(
    st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=8
)
maybe = st.none() | names
thread_names = maybe | st.just("")


@dataclass(frozen=True)
class Identity:
    """Everything a storage key may depend on."""

    workspace: str
    bot: str | None
    runner: str
    agent: str
    conversation: str | None
    thread: str | None
    actor_type: str
    actor_id: str | None
    subject_type: str
    subject_id: str | None

    def scopes(self) -> StateScopes:
        return scopes_for(
            workspace_id=self.workspace,
            runner_id=self.runner,
            agent_id=self.agent,
            envelope=self.envelope(),
        )

    def envelope(self) -> EventEnvelope:
        return EventEnvelope(
            event_type="message.received",
            input=Input(text="x"),
            bot_id=self.bot,
            conversation_id=self.conversation,
            thread_id=self.thread,
            actor=Actor(actor_type=self.actor_type, actor_id=self.actor_id),
            subject=Subject(subject_type=self.subject_type, subject_id=self.subject_id),
        )

    def owner(self, scope: StateScope) -> tuple[Any, ...]:
        """The independent oracle: whose state this is. Equal tuples share it, others never."""
        common = (scope, self.workspace, self.bot, self.runner, self.agent)
        return {
            "conversation": (*common, self.conversation, self.thread),
            "actor": (*common, self.actor_type, self.actor_id),
            "subject": (*common, self.subject_type, self.subject_id),
            "runner": common,
        }[scope]


identities = st.builds(
    Identity,
    workspace=names,
    bot=maybe,
    runner=names,
    agent=names,
    conversation=maybe,
    thread=thread_names,
    actor_type=names,
    actor_id=maybe,
    subject_type=names,
    subject_id=maybe,
)


def neighbours(identity: Identity) -> list[Identity]:
    """Identities that differ in one place only, or have the same text cut elsewhere."""
    values = [getattr(identity, one.name) for one in fields(identity)]
    near = []
    for place, value in enumerate(values):
        others = {None, "", *(spell(value) for spell in SPELLINGS if value)}
        near += [[*values[:place], other, *values[place + 1 :]] for other in others]
    for place, (left, right) in enumerate(pairwise(values)):
        if left and right:
            for pair in ((left + right[0], right[1:]), (right, left)):
                near.append([*values[:place], *pair, *values[place + 2 :]])
    required = [place for place, one in enumerate(fields(identity)) if one.type == "str"]
    return [Identity(*one) for one in near if all(one[place] is not None for place in required)]


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


SPELLINGS: list[Callable[[str], str]] = [
    _nfc,
    _nfd,
    str.lower,
    str.upper,
    lambda text: text + " ",
    lambda text: text + ":",
]


@given(identities, identities)
@example(
    Identity("w", None, "r", "a", "c:t", None, "user", "1", "s", "1"),
    Identity("w", None, "r", "a", "c", "t", "user", "1", "s", "1"),
)
def test_keys_are_equal_exactly_where_the_owners_are(one: Identity, other: Identity) -> None:
    for second in (other, replace(one), *neighbours(one)):
        left, right = one.scopes(), second.scopes()
        for scope in left.keys:
            for there, key in right.keys.items():
                assert (left.keys[scope] == key) is (one.owner(scope) == second.owner(there))


@given(identities)
def test_every_scope_has_a_key_or_the_reason_why_not(identity: Identity) -> None:
    keys, missing = identity.scopes()
    assert set(keys) | set(missing) == set(STATE_SCOPES)
    assert not set(keys) & set(missing)
    assert ("conversation" in keys) is bool(identity.conversation)
    assert ("actor" in keys) is bool(identity.actor_id)
    assert ("subject" in keys) is bool(identity.subject_id)
    assert "runner" in keys
    for scope, reason in missing.items():
        assert f"no {scope} state" in reason


@pytest.mark.parametrize("event", [EventEnvelope(event_type="schedule.triggered", input=Input())])
def test_an_event_of_nobody_has_runner_state_only(event: EventEnvelope) -> None:
    keys, missing = scopes_for(workspace_id="w", runner_id="r", agent_id="a", envelope=event)
    assert set(keys) == {"runner"}
    assert missing == {
        "conversation": "the event has no conversation_id, so it has no conversation state",
        "actor": "the event has no actor, so it has no actor state",
        "subject": "the event has no subject, so it has no subject state",
    }


@settings(
    max_examples=examples(10, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(identities, min_size=1, max_size=3), names)
def test_values_in_the_database_reach_their_owner_and_nobody_else(
    database: SqlDatabase, seeds: list[Identity], key: str
) -> None:
    """Everybody writes under the same key; then everybody sees exactly what its owner wrote last."""
    crowd = [one for seed in seeds for one in (seed, *neighbours(seed))]
    expected: dict[tuple[Any, ...], int] = {}

    async def story() -> None:
        def put_all(tx: Any) -> None:
            for number, (identity, area) in enumerate(areas):
                state_values.set(tx, identity.workspace, area, key, state_value_of(number))
                expected[identity.owner(_scope(area))] = number

        await database.write(put_all)

        def look(tx: Any) -> None:
            for identity, area in areas:
                mine = expected[identity.owner(_scope(area))]
                assert state_values.get(tx, identity.workspace, area.scope_key, key).value == mine
                held = state_values.snapshot(tx, identity.workspace, {area.scope: area.scope_key}).values[
                    area.scope
                ]
                assert held == {state_key_of(key): mine}
                assert list(state_values.list(tx, identity.workspace, area.scope_key).items) == list(held)

        await database.read(look)
        await database.write(
            lambda tx: [
                state_values.delete(tx, identity.workspace, area.scope_key, key) for identity, area in areas
            ]
        )

    areas = [
        (identity, area_of(scope, scope_key, identity.agent, identity.envelope()))
        for identity in crowd
        for scope, scope_key in identity.scopes().keys.items()
    ]
    asyncio.run(asyncio.wait_for(story(), TEST_SECONDS))


def _scope(area: StateArea) -> StateScope:
    return area.scope  # type: ignore[return-value]
