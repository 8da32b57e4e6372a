"""The desk of pauses on both databases: who decides what, who is told what, and what follows for the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler.domain.events import Caller
from hostler.domain.pause_actions import (
    Action,
    ActionAnswer,
    ActRequest,
    AlreadyDecidedError,
    NotApproverError,
    PauseExpiredError,
    PauseView,
    Similar,
    StaleViewError,
    SupersededError,
    UnprocessableError,
)
from hostler.domain.pause_values import NewCall
from hostler.endings import Asked
from hostler.pausing import PauseDesk
from hostler.ports import Tx
from hostler.sql.database import SqlDatabase
from hostler.sql.statements import parse
from hostler.stores import approval_rules, audit, keys, pause_claims, pauses, runs
from hostler_protocol.errors import HostlerError, NotFoundError, PayloadTooLargeError
from hostler_protocol.pausing import FormField, InteractionAction
from support.databases import read, run, write
from support.pauses import PIN, WORKSPACE, call, calls_of, claim_run, open_pause, open_run, park, person, rule


class World:
    """A run that waits, the desk, and some people. Everything is done through the desk."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database
        self.changed: list[str] = []
        self.cancelled: list[Asked] = []
        self.desk = PauseDesk(database, on_changed=self.changed.append, on_cancelled=self.cancelled.extend)
        write(database, open_run)
        self.rita = self.person("rita")
        self.boss = self.person("boss", "admin")
        self.mike = self.person("mike")

    def person(self, subject: str, *roles: str, **more: Any) -> Caller:
        return write(self.database, lambda tx: person(tx, subject, *roles, **more))

    def opens(self, *calls: NewCall, parked: bool = False, **fields: Any) -> None:
        write(self.database, lambda tx: open_pause(tx, *calls, **fields))
        if parked:
            write(self.database, park)

    def act(
        self, caller: Caller, *actions: Action, revision: int = 1, key: str | None = None
    ) -> ActionAnswer:
        request = ActRequest(revision=revision, actions=list(actions))
        return run(self.desk.act(caller, "p1", request, idempotency_key=key))

    def refused(self, kind: type[HostlerError], caller: Caller, *actions: Action, **more: Any) -> Any:
        """Something is refused, and nothing at all has changed."""
        before = self.seen(), self.facts()
        with pytest.raises(kind) as raised:
            self.act(caller, *actions, **more)
        assert (self.seen(), self.facts()) == before
        return raised.value

    def seen(self, caller: Caller | None = None) -> PauseView:
        return run(self.desk.get(caller or self.boss, "p1"))

    def decision(self, call_id: str = "k1") -> tuple[str, str | None]:
        one = read(self.database, calls_of)[call_id]
        return one.decision, one.decided_by

    def facts(self) -> list[str]:
        return [fact.action for fact in read(self.database, lambda tx: audit.page(tx, WORKSPACE))]

    def status(self) -> str:
        return read(self.database, lambda tx: pauses.get(tx, WORKSPACE, "p1")).status

    def run_status(self) -> str:
        return read(self.database, lambda tx: runs.get(tx, WORKSPACE, "r1")).status


@pytest.fixture
def world(database: SqlDatabase) -> World:
    return World(database)


def approve(call_id: str = "k1", **more: Any) -> Action:
    return Action(call_id=call_id, type="approve", **more)


def deny(call_id: str = "k1", **more: Any) -> Action:
    return Action(call_id=call_id, type="deny", **more)


# -- going on -------------------------------------------------------------------------------------------


def test_a_decision_queues_the_paused_run_and_tells_who_listens(world: World) -> None:
    world.opens(parked=True)
    assert world.run_status() == "paused"
    answer = world.act(world.rita, approve())
    assert answer == ActionAnswer(status="ready", remaining=0, events="/v1/runs/r1/stream")
    assert world.decision() == ("approved", "rita")
    run_now = read(world.database, lambda tx: runs.get(tx, WORKSPACE, "r1"))
    assert (run_now.status, run_now.attempt, run_now.crashes) == ("queued", 2, 0)
    assert world.changed == ["r1"]


def test_a_run_that_holds_its_calls_goes_on_as_it_is(world: World) -> None:
    world.opens()
    world.act(world.rita, approve())
    assert (world.status(), world.run_status()) == ("ready", "running")
    assert world.changed == ["r1"]


def test_the_deadline_stands_still_while_the_run_is_paused(database: SqlDatabase) -> None:
    world = World(database)
    deadline = 10_000_000_000_000
    write(database, lambda tx: open_run(tx, "r2", deadline_at=deadline))
    write(database, lambda tx: open_pause(tx, run_id="r2", pause_id="p2"))
    write(database, lambda tx: park(tx, "r2"))
    parked = read(database, lambda tx: pauses.get(tx, WORKSPACE, "p2")).parked_at
    request = ActRequest(revision=1, actions=[approve()])
    run(world.desk.act(world.rita, "p2", request))
    now = read(database, lambda tx: runs.get(tx, WORKSPACE, "r2"))
    assert parked is not None
    assert now.deadline_at is not None
    decided_at = calls_decided_at(database, "p2")
    assert now.deadline_at == deadline + decided_at - parked


def calls_decided_at(database: SqlDatabase, pause_id: str) -> int:
    decided = read(database, lambda tx: calls_of(tx, pause_id))["k1"].decided_at
    assert decided is not None
    return decided


def test_06_parallel_calls_are_decided_one_by_one_and_by_several_people(world: World) -> None:
    world.opens(
        call("k1", editable=True),
        call("k2"),
        call("k3", "client_tool", result_schema={"type": "object"}),
        call("k4", "question", fields=[FormField(name="seats", type="number", required=True)]),
        parked=True,
    )
    assert world.act(world.rita, approve("k1", edited_args={"item": "k1", "seats": 2})).remaining == 3
    assert world.act(world.boss, deny("k2", comment="too dear")).remaining == 2
    assert world.act(world.rita, Action(call_id="k3", type="result", result={"ok": True})).remaining == 1
    assert world.run_status() == "paused"
    last = world.act(world.rita, Action(call_id="k4", type="answer", values={"seats": 3}))
    assert (last.status, last.remaining) == ("ready", 0)
    calls = read(world.database, calls_of)
    assert calls["k1"].effective == {"item": "k1", "seats": 2}
    assert calls["k1"].asked.arguments == {"item": "k1", "seats": 1}, "what was proposed is kept"
    assert (calls["k2"].decision, calls["k2"].given.comment) == ("denied", "too dear")
    assert calls["k3"].given.result == {"ok": True}
    assert calls["k4"].given.values == {"seats": 3}


# -- the same again, and something else -----------------------------------------------------------------


def test_04_the_same_decision_again_changes_nothing_and_answers_the_same(world: World) -> None:
    world.opens(call("k1"), call("k2"))
    first = world.act(world.rita, approve("k1"))
    facts = world.facts()
    for caller in (world.rita, world.boss):
        assert world.act(caller, approve("k1")) == first
    assert world.facts() == facts
    assert world.decision("k1") == ("approved", "rita")


def test_05_a_different_decision_is_told_what_was_decided_and_by_whom(world: World) -> None:
    world.opens(call("k1"), call("k2"))
    world.act(world.rita, deny("k1"))
    error = world.refused(AlreadyDecidedError, world.boss, approve("k1"))
    assert error.details["reason"] == "already_decided"
    assert (error.details["decision"], error.details["decided_by"]) == ("denied", "rita")


def test_a_batch_is_all_or_nothing(world: World) -> None:
    world.opens(call("k1"), call("k2"))
    world.refused(UnprocessableError, world.rita, approve("k1"), Action(call_id="k2", type="answer"))
    world.refused(UnprocessableError, world.rita, approve("k1"), approve("k9"))
    world.act(world.rita, approve("k1"))
    world.refused(AlreadyDecidedError, world.rita, approve("k2"), deny("k1"))
    assert world.act(world.rita, approve("k1"), approve("k2")).status == "ready"


def test_18_wrong_kind_unknown_id_and_stale_views_change_nothing(world: World) -> None:
    world.opens(call("k1", editable=True), call("k2", "question"))
    for action, reason in (
        (Action(call_id="k1", type="result", result=1), "wrong_kind"),
        (approve("k2"), "wrong_kind"),
        (approve("nobody knows it"), "unknown_call"),
    ):
        assert world.refused(UnprocessableError, world.rita, action).details["reason"] == reason
    assert world.refused(StaleViewError, world.rita, approve("k1"), revision=2).details["revision"] == 1
    stale = world.refused(StaleViewError, world.rita, approve("k1", args_hash="0" * 64))
    assert stale.details["args_hash"] == world.seen().calls[0].args_hash
    assert world.act(world.rita, approve("k1", args_hash=stale.details["args_hash"])).remaining == 1


def test_28_an_idempotency_key_belongs_to_caller_and_pause(world: World) -> None:
    world.opens(call("k1"), call("k2"))
    first = world.act(world.rita, approve("k1"), key="one")
    world.act(world.rita, approve("k2"))
    assert world.act(world.rita, approve("k1"), key="one") == first, "as it was answered then"
    error = world.refused(UnprocessableError, world.rita, deny("k1"), key="one")
    assert error.details["reason"] == "key_reused"
    world.refused(AlreadyDecidedError, world.boss, deny("k1"), key="one")
    assert world.act(world.boss, approve("k1"), key="one").remaining == 0, "the refused one left no key"
    assert world.act(world.rita, approve("k1"), key="one") == first
    for key in ("", "x" * 256):
        world.refused(UnprocessableError, world.rita, approve("k1"), key=key)


# -- who may --------------------------------------------------------------------------------------------


def test_17_only_those_whom_the_rule_names_decide(world: World) -> None:
    world.opens(call("k1"), call("k2", rule=rule("user:mike")))
    stranger = world.person("eve")
    reader = world.person("zoe", "admin", rights=("pauses:read",))
    with pytest.raises(NotFoundError):
        world.act(stranger, approve("k1"))
    with pytest.raises(NotFoundError):
        run(world.desk.get(stranger, "p1"))
    assert world.refused(NotApproverError, world.mike, approve("k1")).details["reason"] == "not_approver"
    world.refused(NotApproverError, world.rita, approve("k1"), approve("k2"))
    world.refused(NotApproverError, reader, approve("k1"))
    may = {one.call_id: one.may_decide for one in world.seen(world.mike).calls}
    assert may == {"k1": False, "k2": True}
    foreign = Caller("w2", "boss", world.boss.key_id, world.boss.roles, world.boss.rights)
    with pytest.raises(NotFoundError):
        world.act(foreign, approve("k1"))
    world.act(world.mike, approve("k2"))
    world.act(world.boss, approve("k1"))
    assert world.status() == "ready"


def test_separation_of_duty_keeps_the_requester_out(world: World) -> None:
    world.opens(call(rule=rule("requester", "role:admin", separation=True)))
    world.refused(NotApproverError, world.rita, approve())
    world.act(world.boss, approve())
    assert world.decision() == ("approved", "boss")


def test_a_quorum_needs_different_people_and_one_denial_is_enough(world: World) -> None:
    world.opens(call("k1", rule=rule("*", needed=2)), call("k2", rule=rule("*", needed=2)))
    assert world.act(world.rita, approve("k1")).remaining == 2
    facts = world.facts()
    assert world.act(world.rita, approve("k1")).remaining == 2, "the same person counts once"
    assert world.facts() == facts
    world.refused(AlreadyDecidedError, world.rita, deny("k1"))
    assert world.act(world.mike, approve("k1")).remaining == 1
    assert world.decision("k1") == ("approved", "mike")
    world.act(world.rita, approve("k2"))
    world.act(world.mike, deny("k2"))
    assert world.decision("k2") == ("denied", "mike")
    assert [vote.subject for vote in world.seen().calls[0].votes] == ["rita", "mike"]


def test_17_a_revoked_vote_no_longer_counts(world: World) -> None:
    world.opens(call(rule=rule("*", needed=2)))
    world.act(world.rita, approve())
    write(world.database, lambda tx: keys.revoke(tx, WORKSPACE, world.rita.key_id))
    assert world.act(world.mike, approve()).remaining == 1
    again = world.person("rita")
    assert world.act(again, approve()).remaining == 0


def test_17_who_approved_is_looked_at_again_before_the_execution(world: World) -> None:
    world.opens()
    world.act(world.rita, approve())
    write(world.database, lambda tx: keys.revoke(tx, WORKSPACE, world.rita.key_id))
    write(world.database, lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    refused = write(world.database, lambda tx: pause_claims.reserve(tx, "r1", "k1", 1, effect_key="e1"))
    assert isinstance(refused, pause_claims.Refused)
    assert refused.reason == "revoked"
    write(
        world.database,
        lambda tx: pause_claims.ask_again(tx, "r1", "k1", 1, "revoked", cause="its approver is gone"),
    )
    view = world.seen()
    assert (view.status, view.revision, view.calls[0].decision) == ("open", 2, "undecided")
    world.refused(StaleViewError, world.boss, approve())
    world.act(world.boss, approve(), revision=2)
    assert world.decision() == ("approved", "boss")


def test_24_a_tool_that_comes_back_is_asked_about_again(world: World) -> None:
    world.opens(parked=True)
    world.act(world.rita, approve())
    write(world.database, claim_run)
    write(world.database, lambda tx: pause_claims.begin_resuming(tx, "r1", 2))
    write(
        world.database,
        lambda tx: pause_claims.ask_again(tx, "r1", "k1", 2, "changed", cause="its tool is gone"),
    )
    assert run(world.desk.sweep()) == 0
    view = world.seen()
    assert (view.status, view.calls[0].review, view.calls[0].decision) == (
        "needs_review",
        "changed",
        "undecided",
    )
    world.refused(StaleViewError, world.rita, approve())
    there = {"tool": False}
    changed: list[str] = []
    pin = PIN.__class__(tool_id=PIN.tool_id, owner=PIN.owner, schema_digest="s2")
    desk = PauseDesk(
        world.database, on_changed=changed.append, pin=lambda ws, name: pin if there["tool"] else None
    )
    assert run(desk.sweep()) == 0
    there["tool"] = True
    assert run(desk.sweep()) == 1
    assert changed == ["r1"]
    view = world.seen()
    assert (view.status, view.revision, view.calls[0].review) == ("open", 2, None)
    world.act(world.rita, approve(), revision=2)
    assert read(world.database, calls_of)["k1"].asked.pin == pin


def test_24_a_call_whose_tool_is_gone_can_be_denied(world: World) -> None:
    world.opens()
    world.act(world.rita, approve())
    write(world.database, lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    write(
        world.database,
        lambda tx: pause_claims.ask_again(tx, "r1", "k1", 1, "changed", cause="its tool is gone"),
    )
    assert world.act(world.rita, deny()).status == "ready"


# -- edited arguments -----------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "seats": {"type": "integer", "maximum": 9}},
    "required": ["item"],
    "additionalProperties": False,
}


def test_08_edited_arguments_replace_the_whole_and_are_checked_again(world: World) -> None:
    world.opens(call(editable=True, locked=["item"], args_schema=SCHEMA))
    for edited in ({"item": "k1", "seats": 10}, {"item": "k1", "rows": 1}, {"seats": 2}, {"item": "other"}):
        error = world.refused(UnprocessableError, world.rita, approve(edited_args=edited))
        assert error.details["reason"] == "schema", edited
    too_large = approve(edited_args={"item": "k1", "x": "y" * 66_000})
    world.refused(PayloadTooLargeError, world.rita, too_large)
    world.act(world.rita, approve(edited_args={"item": "k1"}))
    view = world.seen().calls[0]
    assert (view.args, view.proposed_args, view.edited_by) == (
        {"item": "k1"},
        {"item": "k1", "seats": 1},
        "rita",
    )


def test_arguments_may_be_edited_only_where_the_policy_allows(world: World) -> None:
    world.opens()
    error = world.refused(UnprocessableError, world.rita, approve(edited_args={"item": "k1", "seats": 2}))
    assert error.details["reason"] == "schema"
    world.act(world.rita, approve(edited_args={"seats": 1, "item": "k1"}))
    assert world.seen().calls[0].edited_by is None, "equal arguments are no edit"


def test_08_after_an_edit_approvals_of_other_arguments_do_not_count(world: World) -> None:
    world.opens(call(editable=True, rule=rule("*", needed=2)))
    shown = world.seen().calls[0].args_hash
    world.act(world.rita, approve(args_hash=shown))
    world.act(world.mike, approve(args_hash=shown, edited_args={"item": "k1", "seats": 7}))
    assert world.decision() == ("undecided", None)
    world.refused(StaleViewError, world.boss, approve(args_hash=shown))
    world.refused(StaleViewError, world.boss, approve())
    edited = world.seen().calls[0].args_hash
    world.act(world.boss, approve(args_hash=edited))
    assert world.decision() == ("approved", "boss")
    assert read(world.database, calls_of)["k1"].effective == {"item": "k1", "seats": 7}


# -- clients and questions ------------------------------------------------------------------------------


def test_a_clients_result_must_fit_what_was_promised(world: World) -> None:
    world.opens(call("k1", "client_tool", result_schema={"type": "object", "required": ["id"]}))
    bad = Action(call_id="k1", type="result", result={"name": "x"})
    assert "id" in str(world.refused(UnprocessableError, world.rita, bad))
    large = Action(call_id="k1", type="result", result={"id": "x" * 1_100_000})
    world.refused(PayloadTooLargeError, world.rita, large)
    world.act(world.rita, Action(call_id="k1", type="result", result={"id": 1}))
    world.refused(AlreadyDecidedError, world.rita, Action(call_id="k1", type="result", result={"id": 2}))
    assert world.act(world.rita, Action(call_id="k1", type="result", result={"id": 1})).remaining == 0


def test_a_client_may_say_that_it_failed(world: World) -> None:
    world.opens(call("k1", "client_tool", result_schema={"type": "object"}))
    failed = Action(call_id="k1", type="error", error="no camera")
    world.act(world.rita, failed)
    assert world.act(world.rita, failed).remaining == 0
    view = world.seen().calls[0]
    assert (view.decision, view.is_error, view.result) == ("answered", True, "no camera")


def test_a_form_is_held_against_its_fields(world: World) -> None:
    fields = [FormField(name="size", type="select", options=["s", "m"], required=True)]
    world.opens(call("k1", "question", fields=fields, actions=[InteractionAction(name="ok")]))
    for values, button in (({}, None), ({"size": "xl"}, None), ({"size": "s"}, "maybe")):
        action = Action(call_id="k1", type="answer", values=values, action=button)
        assert world.refused(UnprocessableError, world.rita, action).details["reason"] == "schema"
    world.act(world.rita, Action(call_id="k1", type="answer", values={"size": "s"}, action="ok"))
    view = world.seen().calls[0]
    assert (view.values, view.action) == ({"size": "s"}, "ok")


def test_a_comment_has_a_bound(world: World) -> None:
    world.opens()
    world.refused(PayloadTooLargeError, world.rita, approve(comment="x" * 5_000))


# -- time -----------------------------------------------------------------------------------------------


def test_14_15_late_decisions_are_told_that_it_expired(database: SqlDatabase) -> None:
    world = World(database)
    world.opens(call("k1", expires_in=60.0), call("k2"), parked=True)
    pass_time(database, "p1", 61_000)
    world.refused(PauseExpiredError, world.rita, approve("k1"))
    world.refused(PauseExpiredError, world.rita, approve("k2"), deny("k1"))
    assert run(world.desk.sweep()) == 1
    assert world.decision("k1") == ("expired", "clock")
    assert world.status() == "open", "the other one still waits"
    error = world.refused(PauseExpiredError, world.rita, deny("k1"))
    assert error.details["decision"] == "expired"
    world.act(world.rita, approve("k2"))
    assert (world.status(), world.run_status()) == ("ready", "queued")
    pass_time(database, "p1", 10_000_000)
    assert run(world.desk.sweep()) == 0
    assert world.status() == "ready", "a ready pause never expires"
    assert "pause.call.denied" not in world.facts()


def test_15_a_policy_may_end_the_run_when_nobody_answers(world: World) -> None:
    world.opens(call("k1", on_expiry="cancel"), call("k2"), parked=True)
    pass_time(world.database, "p1", 1_900_000)
    assert run(world.desk.sweep()) == 1
    assert (world.status(), world.run_status()) == ("cancelled", "cancelled")
    assert world.decision("k1") == ("expired", "clock")


BACK = parse(
    """
-- name: pauses
UPDATE pauses SET expires_at = expires_at - :ms WHERE pause_id = :pause_id
-- name: calls
UPDATE pause_calls SET expires_at = expires_at - :ms WHERE pause_id = :pause_id
""",
    "t",
)


def pass_time(database: SqlDatabase, pause_id: str, milliseconds: int) -> None:
    """Put what the pause waits for so much further back: the database's clock is real."""
    write(database, lambda tx: tx.run(BACK.pauses, ms=milliseconds, pause_id=pause_id))
    write(database, lambda tx: tx.run(BACK.calls, ms=milliseconds, pause_id=pause_id))


# -- ending it ------------------------------------------------------------------------------------------


def test_cancelling_a_pause_ends_its_run(world: World) -> None:
    world.opens(call("k1"), call("k2"), parked=True)
    world.act(world.rita, approve("k1"))
    with pytest.raises(NotApproverError):
        run(PauseDesk(world.database).cancel(world.person("anna", "viewer", rights=("admin",)), "p1"))
    view = run(world.desk.cancel(world.rita, "p1", reason="changed my mind"))
    assert (view.status, world.run_status()) == ("cancelled", "cancelled")
    assert [one.decision for one in view.calls] == ["approved", "cancelled"]
    facts = world.facts()
    assert run(world.desk.cancel(world.rita, "p1")).status == "cancelled"
    assert world.facts() == facts
    error = world.refused(SupersededError, world.rita, approve("k2"))
    assert error.details["status"] == "cancelled"


def test_cancelling_a_pause_of_a_run_under_way_names_who_is_to_stop(world: World) -> None:
    world.opens()
    run(world.desk.cancel(world.boss, "p1"))
    assert [one.run_id for one in world.cancelled] == ["r1"]
    assert world.status() == "cancelled"


def test_what_is_ready_can_no_longer_be_cancelled(world: World) -> None:
    world.opens(parked=True)
    world.act(world.rita, approve())
    with pytest.raises(SupersededError):
        run(world.desk.cancel(world.rita, "p1"))


# -- in doubt -------------------------------------------------------------------------------------------


def test_a_call_in_doubt_is_resolved_by_a_person_once(world: World) -> None:
    world.opens(call("k1", "in_doubt", effect_key="e1"), parked=True)
    assert world.status() == "needs_review"
    world.refused(UnprocessableError, world.rita, approve())
    with pytest.raises(NotFoundError):
        run(world.desk.resolve(world.person("eve"), "p1", "k1", "happened", 1))
    with pytest.raises(NotApproverError):
        run(world.desk.resolve(world.person("ann", rights=("admin",)), "p1", "k1", "happened", 1))
    view = run(world.desk.resolve(world.rita, "p1", "k1", "happened", {"seat": 12}))
    assert (view.status, view.calls[0].decision, view.calls[0].execution) == (
        "ready",
        "answered",
        "succeeded",
    )
    assert view.calls[0].result == {"seat": 12}
    assert world.run_status() == "queued"
    facts = world.facts()
    assert run(world.desk.resolve(world.rita, "p1", "k1", "happened", {"seat": 12})).status == "ready"
    assert world.facts() == facts
    for outcome, result in (("happened", {"seat": 13}), ("not_happened", None)):
        with pytest.raises(AlreadyDecidedError):
            run(world.desk.resolve(world.boss, "p1", "k1", outcome, result))  # type: ignore[arg-type]


def test_what_did_not_happen_may_be_made_under_another_key(world: World) -> None:
    world.opens(call("k1", "in_doubt", effect_key="e1"))
    run(world.desk.resolve(world.rita, "p1", "k1", "not_happened"))
    one = read(world.database, calls_of)["k1"]
    assert (one.decision, one.execution, one.resolution, one.review) == ("approved", "none", 1, None)
    write(world.database, lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    made = write(world.database, lambda tx: pause_claims.reserve(tx, "r1", "k1", 1, effect_key="e2"))
    assert not isinstance(made, pause_claims.Refused)
    assert made.effect_key == "e2"


def test_an_approved_call_that_comes_into_doubt_keeps_its_approval(world: World) -> None:
    world.opens()
    world.act(world.rita, approve())
    write(world.database, lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    write(world.database, lambda tx: pause_claims.reserve(tx, "r1", "k1", 1, effect_key="e1"))
    write(world.database, lambda tx: pause_claims.doubt(tx, "r1", "k1", 1, cause="the process died"))
    assert world.status() == "needs_review"
    view = run(world.desk.resolve(world.boss, "p1", "k1", "happened", "booked"))
    assert (view.status, view.calls[0].decision, view.calls[0].result) == ("ready", "approved", "booked")


# -- approve similar ------------------------------------------------------------------------------------


def similar(database: SqlDatabase, **arguments: Any) -> Any:
    def take(tx: Tx) -> Any:
        return approval_rules.take(
            tx,
            runs.get(tx, WORKSPACE, "r1"),
            tool_name="shop.book",
            pin=arguments.pop("pin", PIN),
            arguments=arguments,
            rule=rule(),
            call_id="later",
        )

    return write(database, take)


def test_an_approval_may_stand_for_a_bounded_number_of_similar_calls(world: World) -> None:
    world.opens(call("k1"), call("k2"))
    for bad in (Similar(), Similar(uses=0), Similar(uses=101), Similar(minutes=0), Similar(minutes=2_000)):
        world.refused(UnprocessableError, world.rita, approve("k1", similar=bad))
    world.act(world.rita, approve("k1", similar=Similar(uses=3, arguments=["seats"])))
    assert world.decision("k2") == ("approved", "rita"), "what waits beside it is approved at once"
    assert similar(world.database, item="k7", seats=2) is None, "other arguments"
    other_tool = PIN.__class__(tool_id=PIN.tool_id, owner=PIN.owner, schema_digest="s2")
    assert similar(world.database, item="k7", seats=1, pin=other_tool) is None, "the tool changed"
    assert similar(world.database, item="k7", seats=1).subject == "rita"
    assert similar(world.database, item="k8", seats=1).uses_left == 1
    assert similar(world.database, item="k9", seats=1) is None, "used up"


def test_17_a_standing_approval_ends_with_its_maker(world: World) -> None:
    world.opens(call("k1"), call("k2"))
    world.act(world.rita, approve("k1", similar=Similar(minutes=5)))
    assert world.decision("k2") == ("undecided", None), "all arguments must be equal"
    made = similar(world.database, item="k1", seats=1)
    assert write(world.database, lambda tx: approval_rules.revoke(tx, WORKSPACE, made.rule_id, "boss"))
    assert similar(world.database, item="k1", seats=1) is None
    assert [fact for fact in world.facts() if fact.startswith("approval_rule")] == [
        "approval_rule.revoked",
        "approval_rule.used",
        "approval_rule.created",
    ]


def test_what_needs_several_people_is_not_approved_ahead(world: World) -> None:
    world.opens(call(rule=rule("*", needed=2)))
    world.refused(UnprocessableError, world.rita, approve(similar=Similar(uses=1)))


# -- looking --------------------------------------------------------------------------------------------


def test_a_page_holds_what_the_caller_may_see(database: SqlDatabase) -> None:
    world = World(database)
    for number in range(6):
        write(database, lambda tx, n=number: open_run(tx, f"run{n}", requester="rita" if n % 2 else "zoe"))  # type: ignore[misc]
        write(database, lambda tx, n=number: open_pause(tx, run_id=f"run{n}", pause_id=f"pause{n}"))  # type: ignore[misc]
    mine = run(world.desk.page(world.rita, limit=2))
    rest = run(world.desk.page(world.rita, before=mine.next, limit=10))
    assert sorted(view.id for view in mine.items + rest.items) == ["pause1", "pause3", "pause5"]
    assert rest.next is None
    assert len(run(world.desk.page(world.boss)).items) == 6
    assert run(world.desk.page(world.boss, run_id="run2")).items[0].id == "pause2"
    assert run(world.desk.page(world.boss, status="ready")).items == []


# -- everybody at once ----------------------------------------------------------------------------------


def test_05_of_twenty_deciders_at_once_one_wins_and_the_others_are_told(world: World) -> None:
    world.opens(parked=True)

    async def everybody() -> list[ActionAnswer | BaseException]:
        actions = [approve() if number % 2 else deny() for number in range(20)]
        people = [world.rita if number % 3 else world.boss for number in range(20)]
        return await asyncio.gather(
            *(
                world.desk.act(who, "p1", ActRequest(revision=1, actions=[what]))
                for who, what in zip(people, actions, strict=True)
            ),
            return_exceptions=True,
        )

    outcomes = run(everybody())
    told = [one for one in outcomes if isinstance(one, AlreadyDecidedError)]
    won = [one for one in outcomes if isinstance(one, ActionAnswer)]
    assert len(told) == len(won) == 10, [one for one in outcomes if one not in told and one not in won]
    decision, by = world.decision()
    assert {(one.details["decision"], one.details["decided_by"]) for one in told} == {(decision, by)}
    facts = world.facts()
    assert facts.count(f"pause.call.{decision}") == facts.count("pause.ready") == 1
    run_now = read(world.database, lambda tx: runs.get(tx, WORKSPACE, "r1"))
    assert (run_now.status, run_now.attempt) == ("queued", 2)
    assert world.changed == ["r1"]
