"""The desk of pauses on both databases: who may decide, in whose name, ahead or in doubt."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.events import Caller
from hostler.domain.pause_actions import (
    AlreadyDecidedError,
    NotApproverError,
    Similar,
    StaleViewError,
    SupersededError,
    UnprocessableError,
)
from hostler.domain.recording import CallName
from hostler.domain.tool_pins import PresentTool, approved_tool
from hostler.pauses.question import AskAgainError, Question
from hostler.pauses.service import PauseService
from hostler.pauses.verdicts import find_verdict
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import api_keys as keys
from hostler.storage.stores import approval_rules, pause_claims, run_endings, runs
from hostler_protocol.errors import NotFoundError
from support.pause_desk import DeskWorld, approve, deny
from support.pauses import PIN, WORKSPACE, call, calls_of, claim_run, rule

pytestmark = pytest.mark.gate("approvals")

LESS = parse("-- name: less\nUPDATE api_keys SET roles = '[]' WHERE key_id = :key_id", "t")
"""Nobody can change the roles of a key but by hand, or in a later version."""


@pytest.fixture
async def world(database: SqlDatabase) -> DeskWorld:
    return await DeskWorld.opened(database)


# -- who may --------------------------------------------------------------------------------------------


async def test_17_only_those_whom_the_rule_names_decide(world: DeskWorld) -> None:
    await world.opens(call("k1"), call("k2", rule=rule("user:mike")))
    stranger = await world.person("eve")
    reader = await world.person("zoe", "admin", rights=("pauses:read",))
    with pytest.raises(NotFoundError):
        await world.act(stranger, approve("k1"))
    with pytest.raises(NotFoundError):
        await world.desk.get(stranger, "p1")
    assert (await world.refused(NotApproverError, world.mike, approve("k1"))).details[
        "reason"
    ] == "not_approver"
    await world.refused(NotApproverError, world.rita, approve("k1"), approve("k2"))
    await world.refused(NotApproverError, reader, approve("k1"))
    may = {one.call_id: one.may_decide for one in (await world.seen(world.mike)).calls}
    assert may == {"k1": False, "k2": True}
    foreign = Caller("w2", "boss", world.boss.key_id, world.boss.roles, world.boss.rights)
    with pytest.raises(NotFoundError):
        await world.act(foreign, approve("k1"))
    await world.act(world.mike, approve("k2"))
    await world.act(world.boss, approve("k1"))
    assert await world.status() == "ready"


async def test_separation_of_duty_keeps_the_requester_out(world: DeskWorld) -> None:
    await world.opens(call(rule=rule("requester", "role:admin", separation=True)))
    await world.refused(NotApproverError, world.rita, approve())
    await world.act(world.boss, approve())
    assert await world.decision() == ("approved", "boss")


async def test_a_quorum_needs_different_people_and_one_denial_is_enough(world: DeskWorld) -> None:
    await world.opens(call("k1", rule=rule("*", needed=2)), call("k2", rule=rule("*", needed=2)))
    assert (await world.act(world.rita, approve("k1"))).remaining == 2
    facts = await world.facts()
    assert (await world.act(world.rita, approve("k1"))).remaining == 2, "the same person counts once"
    assert await world.facts() == facts
    await world.refused(AlreadyDecidedError, world.rita, deny("k1"))
    assert (await world.act(world.mike, approve("k1"))).remaining == 1
    assert await world.decision("k1") == ("approved", "mike")
    await world.act(world.rita, approve("k2"))
    await world.act(world.mike, deny("k2"))
    assert await world.decision("k2") == ("denied", "mike")
    assert [vote.subject for vote in (await world.seen()).calls[0].votes] == ["rita", "mike"]


async def test_17_a_revoked_vote_no_longer_counts(world: DeskWorld) -> None:
    await world.opens(call(rule=rule("*", needed=2)))
    await world.act(world.rita, approve())
    await world.database.write(lambda tx: keys.revoke(tx, WORKSPACE, world.rita.key_id))
    assert (await world.act(world.mike, approve())).remaining == 1
    again = await world.person("rita")
    assert (await world.act(again, approve())).remaining == 0


async def test_17_who_approved_is_looked_at_again_before_the_execution(world: DeskWorld) -> None:
    await world.opens()
    await world.act(world.rita, approve())
    await world.database.write(lambda tx: keys.revoke(tx, WORKSPACE, world.rita.key_id))
    await world.database.write(lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    refused = await world.database.write(lambda tx: pause_claims.reserve(tx, "r1", "k1", 1, effect_key="e1"))
    assert isinstance(refused, pause_claims.ClaimRefused)
    assert refused.reason == "revoked"
    await world.database.write(
        lambda tx: pause_claims.ask_again(tx, "r1", "k1", 1, "revoked", cause="its approver is gone"),
    )
    view = await world.seen()
    assert (view.status, view.revision, view.calls[0].decision) == ("open", 2, "undecided")
    await world.refused(StaleViewError, world.boss, approve())
    await world.act(world.boss, approve(), revision=2)
    assert await world.decision() == ("approved", "boss")


async def test_24_a_tool_that_comes_back_is_asked_about_again(world: DeskWorld) -> None:
    await world.opens(parked=True)
    await world.act(world.rita, approve())
    await world.database.write(claim_run)
    await world.database.write(lambda tx: pause_claims.begin_resuming(tx, "r1", 2))
    await world.database.write(
        lambda tx: pause_claims.ask_again(tx, "r1", "k1", 2, "changed", cause="its tool is gone"),
    )
    assert await world.desk.sweep() == 0
    view = await world.seen()
    assert (view.status, view.calls[0].review, view.calls[0].decision) == (
        "needs_review",
        "changed",
        "undecided",
    )
    await world.refused(StaleViewError, world.rita, approve())
    there = {"tool": False}
    changed: list[str] = []
    pin = PIN.__class__(tool_id=PIN.tool_id, owner=PIN.owner, schema_digest="s2")
    desk = PauseService(
        world.database,
        on_changed=changed.append,
        tool=lambda ws, name: PresentTool(pin) if there["tool"] else None,
    )
    assert await desk.sweep() == 0
    there["tool"] = True
    assert await desk.sweep() == 1
    assert changed == ["r1"]
    view = await world.seen()
    assert (view.status, view.revision, view.calls[0].review) == ("open", 2, None)
    await world.act(world.rita, approve(), revision=2)
    assert (await world.database.read(calls_of))["k1"].asked.pin == pin


async def test_24_a_call_whose_tool_is_gone_can_be_denied(world: DeskWorld) -> None:
    await world.opens()
    await world.act(world.rita, approve())
    await world.database.write(lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    await world.database.write(
        lambda tx: pause_claims.ask_again(tx, "r1", "k1", 1, "changed", cause="its tool is gone"),
    )
    assert (await world.act(world.rita, deny())).status == "ready"


# -- in doubt -------------------------------------------------------------------------------------------


@pytest.mark.gate("effects-once")
async def test_a_call_in_doubt_is_resolved_by_a_person_once(world: DeskWorld) -> None:
    await world.opens(call("k1", "in_doubt", effect_key="e1"), parked=True)
    assert await world.status() == "needs_review"
    await world.refused(UnprocessableError, world.rita, approve())
    with pytest.raises(NotFoundError):
        await world.desk.resolve(await world.person("eve"), "p1", "k1", "happened", 1)
    with pytest.raises(NotApproverError):
        await world.desk.resolve(await world.person("ann", rights=("admin",)), "p1", "k1", "happened", 1)
    view = await world.desk.resolve(world.rita, "p1", "k1", "happened", {"seat": 12})
    assert (view.status, view.calls[0].decision, view.calls[0].execution) == (
        "ready",
        "answered",
        "succeeded",
    )
    assert view.calls[0].result == {"seat": 12}
    assert await world.run_status() == "queued"
    facts = await world.facts()
    assert (await world.desk.resolve(world.rita, "p1", "k1", "happened", {"seat": 12})).status == "ready"
    assert await world.facts() == facts
    for outcome, result in (("happened", {"seat": 13}), ("not_happened", None)):
        with pytest.raises(AlreadyDecidedError):
            await world.desk.resolve(world.boss, "p1", "k1", outcome, result)  # type: ignore[arg-type]


async def test_what_did_not_happen_may_be_made_under_another_key(world: DeskWorld) -> None:
    await world.opens(call("k1", "in_doubt", effect_key="e1"))
    await world.desk.resolve(world.rita, "p1", "k1", "not_happened")
    one = (await world.database.read(calls_of))["k1"]
    assert (one.decision, one.execution, one.resolution, one.review) == ("approved", "none", 1, None)
    await world.database.write(lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    made = await world.database.write(lambda tx: pause_claims.reserve(tx, "r1", "k1", 1, effect_key="e2"))
    assert not isinstance(made, pause_claims.ClaimRefused)
    assert made.effect_key == "e2"


async def test_17_a_doubt_is_back_when_who_dispelled_it_may_not_say_so_any_more(world: DeskWorld) -> None:
    await world.opens(call("k1", "in_doubt", effect_key="e1"))
    await world.desk.resolve(world.rita, "p1", "k1", "not_happened")
    await world.database.write(lambda tx: keys.revoke(tx, WORKSPACE, world.rita.key_id))
    await world.database.write(lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    refused = await world.database.write(lambda tx: pause_claims.reserve(tx, "r1", "k1", 1, effect_key="e2"))
    assert isinstance(refused, pause_claims.ClaimRefused)
    await world.database.write(
        lambda tx: pause_claims.ask_again(tx, "r1", "k1", 1, "revoked", cause="its approver is gone"),
    )
    view = await world.seen()
    (doubt,) = view.calls
    assert view.status == "needs_review"
    assert (doubt.decision, doubt.execution, doubt.review) == ("undecided", "in_doubt", "in_doubt")
    assert doubt.expires_at is None
    view = await world.desk.resolve(world.boss, "p1", "k1", "not_happened")
    assert (view.calls[0].decision, view.calls[0].decided_by, view.calls[0].execution) == (
        "approved",
        "boss",
        "none",
    )


async def test_an_approved_call_that_comes_into_doubt_keeps_its_approval(world: DeskWorld) -> None:
    await world.opens()
    await world.act(world.rita, approve())
    await world.database.write(lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    await world.database.write(lambda tx: pause_claims.reserve(tx, "r1", "k1", 1, effect_key="e1"))
    await world.database.write(
        lambda tx: pause_claims.mark_in_doubt(tx, "r1", "k1", 1, cause="the process died")
    )
    assert await world.status() == "needs_review"
    view = await world.desk.resolve(world.boss, "p1", "k1", "happened", "booked")
    assert (view.status, view.calls[0].decision, view.calls[0].result) == ("ready", "approved", "booked")


async def test_what_became_of_a_call_is_not_asked_once_its_run_is_over(world: DeskWorld) -> None:
    await world.opens()
    await world.act(world.rita, approve())

    def make_and_end(tx: Tx) -> None:
        pause_claims.begin_resuming(tx, "r1", 1)
        pause_claims.reserve(tx, "r1", "k1", 1, effect_key="e1")
        run_endings.finish(tx, "r1", 1, "failed", cause="the host died", actor="recovery")

    await world.database.write(make_and_end)
    view = await world.seen(world.boss)
    assert (view.calls[0].execution, view.calls[0].review, view.calls[0].may_decide) == (
        "in_doubt",
        None,
        False,
    )
    with pytest.raises(SupersededError, match="nothing waits for what became of call 'k1'"):
        await world.desk.resolve(world.boss, "p1", "k1", "happened", "booked")


# -- approve similar ------------------------------------------------------------------------------------


async def similar(database: SqlDatabase, **arguments: Any) -> Any:
    def take(tx: Tx) -> Any:
        return approval_rules.take(
            tx,
            runs.get(tx, WORKSPACE, "r1"),
            tool_name="shop.book",
            tool=approved_tool(arguments.pop("pin", PIN), arguments.pop("definition", None)),
            arguments=arguments,
            rule=rule(),
            call_id="later",
            holds=lambda _: True,
        )

    return await database.write(take)


async def test_an_approval_may_stand_for_a_bounded_number_of_similar_calls(world: DeskWorld) -> None:
    await world.opens(call("k1"), call("k2"))
    for bad in (Similar(), Similar(uses=0), Similar(uses=101), Similar(minutes=0), Similar(minutes=2_000)):
        await world.refused(UnprocessableError, world.rita, approve("k1", similar=bad))
    await world.act(world.rita, approve("k1", similar=Similar(uses=3, arguments=["seats"])))
    assert await world.decision("k2") == ("approved", "rita"), "what waits beside it is approved at once"
    assert await similar(world.database, item="k7", seats=2) is None, "other arguments"
    other_tool = PIN.__class__(tool_id=PIN.tool_id, owner=PIN.owner, schema_digest="s2")
    assert await similar(world.database, item="k7", seats=1, pin=other_tool) is None, "the tool changed"
    assert await similar(world.database, item="k7", seats=1, definition="another") is None, "its description"
    assert (await similar(world.database, item="k7", seats=1)).subject == "rita"
    assert (await similar(world.database, item="k8", seats=1)).uses_left == 1
    assert await similar(world.database, item="k9", seats=1) is None, "used up"


async def test_17_a_standing_approval_ends_with_its_maker(world: DeskWorld) -> None:
    await world.opens(call("k1"), call("k2"))
    await world.act(world.rita, approve("k1", similar=Similar(minutes=5)))
    assert await world.decision("k2") == ("undecided", None), "all arguments must be equal"
    made = await similar(world.database, item="k1", seats=1)
    assert await world.database.write(lambda tx: approval_rules.revoke(tx, WORKSPACE, made.rule_id, "boss"))
    assert await similar(world.database, item="k1", seats=1) is None
    assert [fact for fact in await world.facts() if fact.startswith("approval_rule")] == [
        "approval_rule.revoked",
        "approval_rule.used",
        "approval_rule.created",
    ]


@pytest.mark.parametrize("taken", ["key", "role"])
async def test_17_calls_are_not_approved_ahead_by_one_who_may_not_approve_any_more(
    world: DeskWorld, taken: str
) -> None:
    boss, mike = world.boss, await world.person("mike", "admin")
    desk = rule("role:admin")
    await world.opens(call("k1", rule=desk), call("k2", rule=desk), call("k3", rule=desk))
    await world.act(boss, approve("k1", similar=Similar(uses=5)))
    later = Question(
        "approval",
        CallName("tool.call", "a later call", 1),
        {"item": "k1", "seats": 1},
        tool_name="shop.book",
        pin=PIN,
        rule=ToolApprovalPolicy(subjects=["role:admin"]),
    )

    def ask(tx: Tx) -> Any:
        return find_verdict(tx, runs.get(tx, WORKSPACE, "r1"), None, later, None)

    verdict = await world.database.write(ask)
    assert verdict.decided_by == "boss"
    assert await world.database.write(lambda tx: verdict.reserve(tx, "key")) is None

    if taken == "key":
        await world.database.write(lambda tx: keys.revoke(tx, WORKSPACE, boss.key_id))
    else:
        await world.database.write(lambda tx: tx.run(LESS.less, key_id=boss.key_id))

    left = await world.database.read(lambda tx: approval_rules.page(tx, WORKSPACE))
    facts = await world.facts()
    refused = await world.database.write(lambda tx: verdict.reserve(tx, "key"))
    assert isinstance(refused, AskAgainError), "it was not carried out yet"
    assert await world.database.write(ask) is None, "people are asked"
    assert await world.database.read(lambda tx: approval_rules.page(tx, WORKSPACE)) == left, "no use is taken"
    assert await world.facts() == facts
    await world.act(mike, approve("k2", similar=Similar(uses=1, arguments=[])))
    assert await world.decision("k3") == ("approved", "mike"), "an approval ahead of another one holds"


async def test_what_needs_several_people_is_not_approved_ahead(world: DeskWorld) -> None:
    await world.opens(call(rule=rule("*", needed=2)))
    await world.refused(UnprocessableError, world.rita, approve(similar=Similar(uses=1)))
