"""The desk of pauses on both databases: who decides what, who is told what, and what follows for the run."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from hostler.domain.pause_actions import (
    Action,
    ActionAnswer,
    ActRequest,
    AlreadyDecidedError,
    NotApproverError,
    PauseExpiredError,
    StaleViewError,
    SupersededError,
    UnprocessableError,
)
from hostler.pauses.service import PauseService
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import pauses, runs
from hostler_protocol.errors import PayloadTooLargeError
from hostler_protocol.pausing import FormField, InteractionAction
from support.pause_desk import DeskWorld, approve, deny
from support.pauses import WORKSPACE, call, calls_of, open_pause, open_run, park, rule

pytestmark = pytest.mark.gate("approved-arguments")


@pytest.fixture
async def world(database: SqlDatabase) -> DeskWorld:
    return await DeskWorld.opened(database)


# -- going on -------------------------------------------------------------------------------------------


async def test_a_decision_queues_the_paused_run_and_tells_who_listens(world: DeskWorld) -> None:
    await world.opens(parked=True)
    assert await world.run_status() == "paused"
    answer = await world.act(world.rita, approve())
    assert answer == ActionAnswer(status="ready", remaining=0, events="/v1/runs/r1/stream")
    assert await world.decision() == ("approved", "rita")
    run_now = await world.database.read(lambda tx: runs.get(tx, WORKSPACE, "r1"))
    assert (run_now.status, run_now.attempt, run_now.crashes) == ("queued", 2, 0)
    assert world.changed == ["r1"]


async def test_a_run_that_holds_its_calls_goes_on_as_it_is(world: DeskWorld) -> None:
    await world.opens()
    await world.act(world.rita, approve())
    assert (await world.status(), await world.run_status()) == ("ready", "running")
    assert world.changed == ["r1"]


async def test_the_deadline_stands_still_while_the_run_is_paused(database: SqlDatabase) -> None:
    world = await DeskWorld.opened(database)
    deadline = 10_000_000_000_000
    await database.write(lambda tx: open_run(tx, "r2", deadline_at=deadline))
    await database.write(lambda tx: open_pause(tx, run_id="r2", pause_id="p2"))
    await database.write(lambda tx: park(tx, "r2"))
    parked = (await database.read(lambda tx: pauses.get(tx, WORKSPACE, "p2"))).parked_at
    request = ActRequest(revision=1, actions=[approve()])
    await world.desk.act(world.rita, "p2", request)
    now = await database.read(lambda tx: runs.get(tx, WORKSPACE, "r2"))
    assert parked is not None
    assert now.deadline_at is not None
    decided_at = await calls_decided_at(database, "p2")
    assert now.deadline_at == deadline + decided_at - parked


async def calls_decided_at(database: SqlDatabase, pause_id: str) -> int:
    decided = (await database.read(lambda tx: calls_of(tx, pause_id)))["k1"].decided_at
    assert decided is not None
    return decided


async def test_06_parallel_calls_are_decided_one_by_one_and_by_several_people(world: DeskWorld) -> None:
    await world.opens(
        call("k1", editable=True),
        call("k2"),
        call("k3", "client_tool", result_schema={"type": "object"}),
        call("k4", "question", fields=[FormField(name="seats", type="number", required=True)]),
        parked=True,
    )
    assert (await world.act(world.rita, approve("k1", edited_args={"item": "k1", "seats": 2}))).remaining == 3
    assert (await world.act(world.boss, deny("k2", comment="too dear"))).remaining == 2
    assert (
        await world.act(world.rita, Action(call_id="k3", type="result", result={"ok": True}))
    ).remaining == 1
    assert await world.run_status() == "paused"
    last = await world.act(world.rita, Action(call_id="k4", type="answer", values={"seats": 3}))
    assert (last.status, last.remaining) == ("ready", 0)
    calls = await world.database.read(calls_of)
    assert calls["k1"].effective == {"item": "k1", "seats": 2}
    assert calls["k1"].asked.arguments == {"item": "k1", "seats": 1}, "what was proposed is kept"
    assert (calls["k2"].decision, calls["k2"].given.comment) == ("denied", "too dear")
    assert calls["k3"].given.result == {"ok": True}
    assert calls["k4"].given.values == {"seats": 3}


# -- the same again, and something else -----------------------------------------------------------------


async def test_04_the_same_decision_again_changes_nothing_and_answers_the_same(world: DeskWorld) -> None:
    await world.opens(call("k1"), call("k2"))
    first = await world.act(world.rita, approve("k1"))
    facts = await world.facts()
    for caller in (world.rita, world.boss):
        assert await world.act(caller, approve("k1")) == first
    assert await world.facts() == facts
    assert await world.decision("k1") == ("approved", "rita")


async def test_05_a_different_decision_is_told_what_was_decided_and_by_whom(world: DeskWorld) -> None:
    await world.opens(call("k1"), call("k2"))
    await world.act(world.rita, deny("k1"))
    error = await world.refused(AlreadyDecidedError, world.boss, approve("k1"))
    assert error.details["reason"] == "already_decided"
    assert (error.details["decision"], error.details["decided_by"]) == ("denied", "rita")


async def test_a_batch_is_all_or_nothing(world: DeskWorld) -> None:
    await world.opens(call("k1"), call("k2"))
    await world.refused(UnprocessableError, world.rita, approve("k1"), Action(call_id="k2", type="answer"))
    await world.refused(UnprocessableError, world.rita, approve("k1"), approve("k9"))
    await world.act(world.rita, approve("k1"))
    await world.refused(AlreadyDecidedError, world.rita, approve("k2"), deny("k1"))
    assert (await world.act(world.rita, approve("k1"), approve("k2"))).status == "ready"


async def test_18_wrong_kind_unknown_id_and_stale_views_change_nothing(world: DeskWorld) -> None:
    await world.opens(call("k1", editable=True), call("k2", "question"))
    for action, reason in (
        (Action(call_id="k1", type="result", result=1), "wrong_kind"),
        (approve("k2"), "wrong_kind"),
        (approve("nobody knows it"), "unknown_call"),
    ):
        assert (await world.refused(UnprocessableError, world.rita, action)).details["reason"] == reason
    assert (await world.refused(StaleViewError, world.rita, approve("k1"), revision=2)).details[
        "revision"
    ] == 1
    stale = await world.refused(StaleViewError, world.rita, approve("k1", args_hash="0" * 64))
    assert stale.details["args_hash"] == (await world.seen()).calls[0].args_hash
    assert (await world.act(world.rita, approve("k1", args_hash=stale.details["args_hash"]))).remaining == 1


async def test_28_an_idempotency_key_belongs_to_caller_and_pause(world: DeskWorld) -> None:
    await world.opens(call("k1"), call("k2"))
    first = await world.act(world.rita, approve("k1"), key="one")
    await world.act(world.rita, approve("k2"))
    assert await world.act(world.rita, approve("k1"), key="one") == first, "as it was answered then"
    error = await world.refused(UnprocessableError, world.rita, deny("k1"), key="one")
    assert error.details["reason"] == "key_reused"
    await world.refused(AlreadyDecidedError, world.boss, deny("k1"), key="one")
    assert (await world.act(world.boss, approve("k1"), key="one")).remaining == 0, (
        "the refused one left no key"
    )
    assert await world.act(world.rita, approve("k1"), key="one") == first
    for key in ("", "x" * 256):
        await world.refused(UnprocessableError, world.rita, approve("k1"), key=key)


# -- edited arguments -----------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "seats": {"type": "integer", "maximum": 9}},
    "required": ["item"],
    "additionalProperties": False,
}


async def test_08_edited_arguments_replace_the_whole_and_are_checked_again(world: DeskWorld) -> None:
    await world.opens(call(editable=True, locked=["item"], args_schema=SCHEMA))
    for edited in ({"item": "k1", "seats": 10}, {"item": "k1", "rows": 1}, {"seats": 2}, {"item": "other"}):
        error = await world.refused(UnprocessableError, world.rita, approve(edited_args=edited))
        assert error.details["reason"] == "schema", edited
    too_large = approve(edited_args={"item": "k1", "x": "y" * 66_000})
    await world.refused(PayloadTooLargeError, world.rita, too_large)
    await world.act(world.rita, approve(edited_args={"item": "k1"}))
    view = (await world.seen()).calls[0]
    assert (view.args, view.proposed_args, view.edited_by) == (
        {"item": "k1"},
        {"item": "k1", "seats": 1},
        "rita",
    )


async def test_arguments_may_be_edited_only_where_the_policy_allows(world: DeskWorld) -> None:
    await world.opens()
    error = await world.refused(
        UnprocessableError, world.rita, approve(edited_args={"item": "k1", "seats": 2})
    )
    assert error.details["reason"] == "schema"
    await world.act(world.rita, approve(edited_args={"seats": 1, "item": "k1"}))
    assert (await world.seen()).calls[0].edited_by is None, "equal arguments are no edit"


async def test_08_after_an_edit_approvals_of_other_arguments_do_not_count(world: DeskWorld) -> None:
    await world.opens(call(editable=True, rule=rule("*", needed=2)))
    shown = (await world.seen()).calls[0].args_hash
    await world.act(world.rita, approve(args_hash=shown))
    await world.act(world.mike, approve(args_hash=shown, edited_args={"item": "k1", "seats": 7}))
    assert await world.decision() == ("undecided", None)
    await world.refused(StaleViewError, world.boss, approve(args_hash=shown))
    await world.refused(StaleViewError, world.boss, approve())
    edited = (await world.seen()).calls[0].args_hash
    await world.act(world.boss, approve(args_hash=edited))
    assert await world.decision() == ("approved", "boss")
    assert (await world.database.read(calls_of))["k1"].effective == {"item": "k1", "seats": 7}


# -- clients and questions ------------------------------------------------------------------------------


async def test_a_clients_result_must_fit_what_was_promised(world: DeskWorld) -> None:
    await world.opens(call("k1", "client_tool", result_schema={"type": "object", "required": ["id"]}))
    bad = Action(call_id="k1", type="result", result={"name": "x"})
    assert "id" in str(await world.refused(UnprocessableError, world.rita, bad))
    large = Action(call_id="k1", type="result", result={"id": "x" * 1_100_000})
    await world.refused(PayloadTooLargeError, world.rita, large)
    await world.act(world.rita, Action(call_id="k1", type="result", result={"id": 1}))
    await world.refused(
        AlreadyDecidedError, world.rita, Action(call_id="k1", type="result", result={"id": 2})
    )
    assert (await world.act(world.rita, Action(call_id="k1", type="result", result={"id": 1}))).remaining == 0


async def test_a_client_may_say_that_it_failed(world: DeskWorld) -> None:
    await world.opens(call("k1", "client_tool", result_schema={"type": "object"}))
    failed = Action(call_id="k1", type="error", error="no camera")
    await world.act(world.rita, failed)
    assert (await world.act(world.rita, failed)).remaining == 0
    view = (await world.seen()).calls[0]
    assert (view.decision, view.is_error, view.result) == ("answered", True, "no camera")


async def test_a_form_is_held_against_its_fields(world: DeskWorld) -> None:
    fields = [FormField(name="size", type="select", options=["s", "m"], required=True)]
    await world.opens(call("k1", "question", fields=fields, actions=[InteractionAction(name="ok")]))
    for values, button in (({}, None), ({"size": "xl"}, None), ({"size": "s"}, "maybe")):
        action = Action(call_id="k1", type="answer", values=values, action=button)
        assert (await world.refused(UnprocessableError, world.rita, action)).details["reason"] == "schema"
    await world.act(world.rita, Action(call_id="k1", type="answer", values={"size": "s"}, action="ok"))
    view = (await world.seen()).calls[0]
    assert (view.values, view.action) == ({"size": "s"}, "ok")


async def test_a_comment_has_a_bound(world: DeskWorld) -> None:
    await world.opens()
    await world.refused(PayloadTooLargeError, world.rita, approve(comment="x" * 5_000))


# -- time -----------------------------------------------------------------------------------------------


async def test_14_15_late_decisions_are_told_that_it_expired(database: SqlDatabase) -> None:
    world = await DeskWorld.opened(database)
    await world.opens(call("k1", expires_in=60.0), call("k2"), parked=True)
    await pass_time(database, "p1", 61_000)
    await world.refused(PauseExpiredError, world.rita, approve("k1"))
    await world.refused(PauseExpiredError, world.rita, approve("k2"), deny("k1"))
    assert await world.desk.sweep() == 1
    assert await world.decision("k1") == ("expired", "clock")
    assert await world.status() == "open", "the other one still waits"
    error = await world.refused(PauseExpiredError, world.rita, deny("k1"))
    assert error.details["decision"] == "expired"
    await world.act(world.rita, approve("k2"))
    assert (await world.status(), await world.run_status()) == ("ready", "queued")
    await pass_time(database, "p1", 10_000_000)
    assert await world.desk.sweep() == 0
    assert await world.status() == "ready", "a ready pause never expires"
    assert "pause.call.denied" not in await world.facts()


async def test_15_a_policy_may_end_the_run_when_nobody_answers(world: DeskWorld) -> None:
    await world.opens(call("k1", on_expiry="cancel"), call("k2"), parked=True)
    await pass_time(world.database, "p1", 1_900_000)
    assert await world.desk.sweep() == 1
    assert (await world.status(), await world.run_status()) == ("cancelled", "cancelled")
    assert await world.decision("k1") == ("expired", "clock")


BACK = parse(
    """
-- name: pauses
UPDATE pauses SET expires_at = expires_at - :ms WHERE pause_id = :pause_id
-- name: calls
UPDATE pause_calls SET expires_at = expires_at - :ms WHERE pause_id = :pause_id
""",
    "t",
)


async def pass_time(database: SqlDatabase, pause_id: str, milliseconds: int) -> None:
    """Put what the pause waits for so much further back: the database's clock is real."""
    await database.write(lambda tx: tx.run(BACK.pauses, ms=milliseconds, pause_id=pause_id))
    await database.write(lambda tx: tx.run(BACK.calls, ms=milliseconds, pause_id=pause_id))


# -- ending it ------------------------------------------------------------------------------------------


async def test_cancelling_a_pause_ends_its_run(world: DeskWorld) -> None:
    await world.opens(call("k1"), call("k2"), parked=True)
    await world.act(world.rita, approve("k1"))
    with pytest.raises(NotApproverError):
        await PauseService(world.database).cancel(
            await world.person("anna", "viewer", rights=("admin",)), "p1"
        )
    view = await world.desk.cancel(world.rita, "p1", reason="changed my mind")
    assert (view.status, await world.run_status()) == ("cancelled", "cancelled")
    assert [one.decision for one in view.calls] == ["approved", "cancelled"]
    facts = await world.facts()
    assert (await world.desk.cancel(world.rita, "p1")).status == "cancelled"
    assert await world.facts() == facts
    error = await world.refused(SupersededError, world.rita, approve("k2"))
    assert error.details["status"] == "cancelled"


async def test_cancelling_a_pause_of_a_run_under_way_names_who_is_to_stop(world: DeskWorld) -> None:
    await world.opens()
    await world.desk.cancel(world.boss, "p1")
    assert [one.run_id for one in world.cancelled] == ["r1"]
    assert await world.status() == "cancelled"


async def test_what_is_ready_can_no_longer_be_cancelled(world: DeskWorld) -> None:
    await world.opens(parked=True)
    await world.act(world.rita, approve())
    with pytest.raises(SupersededError):
        await world.desk.cancel(world.rita, "p1")


# -- looking --------------------------------------------------------------------------------------------


async def test_a_page_holds_what_the_caller_may_see(database: SqlDatabase) -> None:
    world = await DeskWorld.opened(database)
    for number in range(6):
        requester = "rita" if number % 2 else "zoe"
        await database.write(partial(open_run, run_id=f"run{number}", requester=requester))
        await database.write(partial(open_pause, run_id=f"run{number}", pause_id=f"pause{number}"))
    mine = await world.desk.page(world.rita, limit=2)
    rest = await world.desk.page(world.rita, before=mine.next, limit=10)
    assert sorted(view.id for view in mine.items + rest.items) == ["pause1", "pause3", "pause5"]
    assert rest.next is None
    assert len((await world.desk.page(world.boss)).items) == 6
    assert (await world.desk.page(world.boss, run_id="run2")).items[0].id == "pause2"
    assert (await world.desk.page(world.boss, statuses=["ready"])).items == []


# -- everybody at once ----------------------------------------------------------------------------------


async def test_05_of_twenty_deciders_at_once_one_wins_and_the_others_are_told(world: DeskWorld) -> None:
    await world.opens(parked=True)
    actions = [approve() if number % 2 else deny() for number in range(20)]
    people = [world.rita if number % 3 else world.boss for number in range(20)]
    outcomes = await asyncio.gather(
        *(
            world.desk.act(who, "p1", ActRequest(revision=1, actions=[what]))
            for who, what in zip(people, actions, strict=True)
        ),
        return_exceptions=True,
    )
    told = [one for one in outcomes if isinstance(one, AlreadyDecidedError)]
    won = [one for one in outcomes if isinstance(one, ActionAnswer)]
    assert len(told) == len(won) == 10, [one for one in outcomes if one not in told and one not in won]
    decision, by = await world.decision()
    assert {(one.details["decision"], one.details["decided_by"]) for one in told} == {(decision, by)}
    facts = await world.facts()
    assert facts.count(f"pause.call.{decision}") == facts.count("pause.ready") == 1
    run_now = await world.database.read(lambda tx: runs.get(tx, WORKSPACE, "r1"))
    assert (run_now.status, run_now.attempt) == ("queued", 2)
    assert world.changed == ["r1"]
