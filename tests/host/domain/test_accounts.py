"""What follows a person from account to account, and which chats are private: the decisions alone."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from hostler.domain.accounts import (
    MAX_CHATS,
    AcrossAccounts,
    Allowed,
    Chat,
    Identity,
    PrivateChat,
    across_accounts,
    allowed_across,
    noted,
    person_of,
)
from hostler.domain.agents import AgentSpec, ResourcePolicy, StatePolicy
from hostler.domain.child_runs import ParentBounds
from hostler.domain.grant_rules import grant_rules
from hostler.domain.grants import Grant, decode_grant
from hostler.domain.scopes import area_of, scopes_for
from hostler_protocol.events import Actor, EventEnvelope, Input

pytestmark = pytest.mark.gate("across-accounts")
ANN = Identity("ann@example.org")
BOTH = Allowed(state=True, history=True)


def chat(person_id: str | None = "ann", *, channel_of: str = "plugin:a/b/c") -> Chat:
    return Chat(
        conversation_id="own",
        channel="lobby",
        channel_of=channel_of,
        bot_id="bot",
        person_id=person_id,
    )


def spec(*, state: bool = True, history: bool = True, **policy: object) -> AgentSpec:
    return AgentSpec(
        name="a",
        runner="plugin:a/b/c",
        state_policy=StatePolicy(actor_across_accounts=state, **policy),  # type: ignore[arg-type]
        resource_policy=ResourcePolicy(allow_cross_account_history=history),
    )


def test_a_chat_never_becomes_private_nor_another_persons() -> None:
    seen = [chat("ann"), chat("bob"), chat(None), chat("ann", channel_of="plugin:a/b/other")]
    for first, *others in itertools.product(seen, repeat=3):
        known = noted(None, first)
        for one in others:
            known = noted(known, one)
        same = all(one == first for one in others)
        assert known.person_id == (first.person_id if same else None), (first, others)


def test_nothing_follows_unless_the_agent_and_all_runs_above_say_so() -> None:
    assert allowed_across(AgentSpec(name="a", runner="plugin:a/b/c"), None) == (False, False)
    assert allowed_across(spec(), None) == (True, True)
    assert allowed_across(spec(enable_state=False), None) == (False, True)
    assert allowed_across(spec(state_scopes=["conversation"]), None) == (False, True)
    assert allowed_across(spec(), ParentBounds()) == (False, False)
    assert allowed_across(spec(state=False), ParentBounds(cross_account_state=True)) == (False, False)
    assert allowed_across(spec(), ParentBounds(cross_account_history=True)) == (False, True)


def test_what_was_said_in_private_is_given_in_the_persons_private_chats_alone() -> None:
    there = [PrivateChat("bot", "own"), PrivateChat("other", "there", 7)]
    found = across_accounts(BOTH, ANN, chat(), there)
    assert found == AcrossAccounts("ann@example.org", state=True, history=True, chats=there[1:])
    for own in (chat(None), None):
        grouped = across_accounts(BOTH, ANN, own, there)
        assert grouped == AcrossAccounts("ann@example.org", state=True), (
            "a group has the person's state alone"
        )
        assert across_accounts(Allowed(state=False, history=True), ANN, own, there) is None
    assert across_accounts(BOTH, None, chat(), there) is None, "no channel says who it is"
    assert across_accounts(Allowed(state=False, history=False), ANN, chat(), there) is None
    many = [PrivateChat("bot", str(number)) for number in range(MAX_CHATS + 5)]
    crowded = across_accounts(BOTH, ANN, chat(), many)
    assert crowded is not None
    assert len(crowded.chats) == MAX_CHATS


def key_of(person: Identity | None, workspace: str = "w", actor: Actor | None = None) -> str:
    envelope = EventEnvelope(event_type="message.received", bot_id="bot", actor=actor, input=Input(text="x"))
    found = scopes_for(
        workspace_id=workspace, runner_id="plugin:a/b/c", agent_id="a", envelope=envelope, person=person
    )
    return found.keys["actor"]


def test_each_identity_has_a_key_of_its_own_however_it_is_spelled() -> None:
    people = [
        Identity("person:a/b"),
        Identity("person:a/b", "plugin:a/b/c"),
        Identity("person:a/b", "plugin:a/b/d"),
        Identity("person:a/b "),
        Identity("Person:a/b"),
        Identity("person:a/b/c"),
        Identity("a/b"),
        Identity('{"subject":"a/b","channel_of":null}'),
        Identity("ann@example.org"),
    ]
    keys = [key_of(person, workspace) for person in people for workspace in ("w", "v")]
    for subject, kind in itertools.product({one.subject for one in people}, ("user", "subject")):
        keys.append(key_of(None, actor=Actor(actor_type=kind, actor_id=subject)))
    assert len(set(keys)) == len(keys)


def test_the_owner_of_what_follows_is_the_subject() -> None:
    actor = Actor(actor_type="user", actor_id="ann")
    envelope = EventEnvelope(event_type="message.received", actor=actor, input=Input(text="x"))
    across = AcrossAccounts("person:lobby/ann", "plugin:a/b/c", state=True)
    area = area_of("actor", "key", "a", envelope, person_of(across))
    assert (area.actor_type, area.actor_id) == ("subject", "person:lobby/ann")
    alone = area_of("actor", "key", "a", envelope, person_of(AcrossAccounts("x", history=True)))
    assert (alone.actor_type, alone.actor_id) == ("user", "ann")


def test_a_run_passes_on_what_it_has_itself() -> None:
    def below(across: AcrossAccounts | None) -> Allowed:
        grant = Grant(
            workspace_id="w", agent_id="a", agent_version=1, runner_id="r", owner="a/b", across=across
        )
        return allowed_across(spec(), decode_grant(grant.encoded).bounds_below)

    assert below(None) == (False, False)
    assert below(AcrossAccounts("s", state=True)) == (True, False)
    assert below(AcrossAccounts("s", history=True, chats=[PrivateChat("b", "c")])) == (False, True)


def test_an_explanation_says_whose_state_and_history_a_run_has() -> None:
    across = AcrossAccounts("ann@example.org", state=True, history=True, chats=[PrivateChat("b", "c")])
    grant = Grant(
        workspace_id="w",
        agent_id="a",
        agent_version=1,
        runner_id="r",
        owner="a/b",
        conversation_id="own",
        calls=frozenset({"state.get", "history.page", "history.search"}),
        state_keys={"actor": "k", "runner": "k"},
        across=across,
    )

    def fields(method: str, named: str | None, given: Grant = grant) -> set[str | None]:
        return {rule.field for rule in grant_rules(given, spec(), method, named)}

    assert "state_policy.actor_across_accounts" in fields("state.get", "actor")
    assert "state_policy.actor_across_accounts" not in fields("state.get", "runner")
    for method, named in (("history.page", None), ("history.page", "own"), ("history.search", None)):
        assert "resource_policy.allow_cross_account_history" in fields(method, named)
    assert "resource_policy.allow_cross_account_history" not in fields("history.page", "other")
    alone = msgspec.structs.replace(grant, across=None)
    assert "state_policy.actor_across_accounts" not in fields("state.get", "actor", alone)
    assert "resource_policy.allow_cross_account_history" not in fields("history.page", None, alone)
