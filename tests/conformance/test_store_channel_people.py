"""People of channels on both databases: whom a run works for, and whose vote counts."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.approvers import ApproverRule, check_subject, refusal
from hostler.domain.channels import check_reserved
from hostler.domain.events import Caller, Event
from hostler.domain.pause_actions import Action, ActRequest
from hostler.pauses import transitions
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import channel_people as people
from hostler.storage.stores import events, pause_votes, pauses, runs, settings
from hostler.storage.stores.channel_entries import CHANNEL
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import Actor, EventEnvelope, Input
from support.databases import read, write
from support.pauses import WORKSPACE, calls_of, open_pause, open_run

pytestmark = pytest.mark.gate("both-databases")


def bring(tx: Tx, *, by: str | None = "ann", requester: str = "channel:lobby", run_id: str = "r1") -> None:
    """An event of somebody, and a run of it."""
    envelope = EventEnvelope(
        event_type="message.received",
        event_id=f"e of {run_id}",
        workspace_id=WORKSPACE,
        input=Input(text="hello"),
        actor=None if by is None else Actor(actor_type="user", actor_id=by),
    )
    event = Event(WORKSPACE, f"e of {run_id}", envelope, "d", False, 1, requester)
    events.insert(tx, event, "started", run_id, {})
    open_run(tx, run_id, event_id=f"e of {run_id}", requester=requester)


def configure(tx: Tx, **fields: Any) -> None:
    settings.put(tx, WORKSPACE, CHANNEL, "lobby", {"name": "lobby", "channel": "plugin:a/b/c", **fields})


def requester(database: SqlDatabase, run_id: str) -> str | None:
    return read(database, lambda tx: people.requester_of(tx, runs.get(tx, WORKSPACE, run_id)))


def test_a_run_works_for_the_person_whom_the_channel_names_and_nobody_else_names_one(
    database: SqlDatabase,
) -> None:
    def work(tx: Tx) -> None:
        bring(tx)
        bring(tx, by=None, run_id="r2")
        bring(tx, requester="key:desk", run_id="r3")

    write(database, work)
    assert requester(database, "r1") == "person:lobby/ann"
    assert requester(database, "r2") == "channel:lobby", "nobody caused it"
    assert requester(database, "r3") == "key:desk", "an actor that a sender wrote is nobody's identity"
    pause = write(database, open_pause)
    assert pause.requester == "person:lobby/ann"


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [
        ("requester", True),
        ("person:lobby/ann", True),
        ("user:person:lobby/ann", True),
        ("*", True),
        ("person:lobby/bob", False),
        ("person:attic/ann", False),
        ("role:admin", False),
        ("user:ann", False),
    ],
)
def test_rules_name_people_of_channels(database: SqlDatabase, subject: str, allowed: bool) -> None:
    ann = read(database, lambda tx: people.caller_of(tx, WORKSPACE, "lobby", "ann"))
    check_subject(subject)
    assert (refusal(ApproverRule(subjects=(subject,)), ann, "person:lobby/ann") is None) == allowed


@pytest.mark.parametrize("subject", ["person:", "person:lobby", "person:/ann", "person:lobby/"])
def test_a_rule_that_names_nobody_is_refused(subject: str) -> None:
    with pytest.raises(ValueError, match=r"no subject|names no person"):
        check_subject(subject)


@pytest.mark.parametrize("subject", ["channel:lobby", "person:lobby/ann"])
def test_no_key_passes_for_a_channel_or_a_person_of_one(subject: str) -> None:
    with pytest.raises(InvalidArgumentError, match="subjects that begin with"):
        check_reserved(subject)


def test_without_a_person_a_caller_is_nobody_of_a_channel() -> None:
    nobody = Caller(WORKSPACE, "key:desk", "k", rights=frozenset({"pauses:write"}))
    assert refusal(ApproverRule(subjects=("person:lobby/ann",)), nobody, "channel:lobby") is not None


@pytest.mark.parametrize(
    ("entry", "counts"),
    [
        ({}, True),
        ({"allow": {"people": ["ann"]}}, True),
        ({"allow": {"people": ["bob"], "chats": ["room"]}}, True),
        ({"allow": {"people": ["bob"]}}, False),
        ({"block": {"people": ["ann"]}}, False),
        ({"enabled": False}, False),
        (None, False),
    ],
)
def test_a_vote_counts_as_long_as_the_channel_lets_its_person_in(
    database: SqlDatabase, entry: dict[str, Any] | None, counts: bool
) -> None:
    def work(tx: Tx) -> bool:
        bring(tx)
        open_pause(tx)
        ann = people.caller_of(tx, WORKSPACE, "lobby", "ann")
        configure(tx)
        shown = calls_of(tx)["k1"].args_hash
        approve = Action(call_id="k1", type="approve", args_hash=shown)
        request = ActRequest(revision=1, actions=[approve])
        transitions.act(tx, ann, "p1", request, request_key=None, body_digest="d")
        settings.delete(tx, WORKSPACE, CHANNEL, "lobby")
        if entry is not None:
            configure(tx, **entry)
        return pause_votes.still_approved(tx, pauses.get(tx, WORKSPACE, "p1"), calls_of(tx)["k1"])

    assert write(database, work) == counts
