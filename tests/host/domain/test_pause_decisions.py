"""Decisions on waiting calls: every kind of action, and every way to refuse one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from hostler.domain.approvers import ApproverRule, Vote
from hostler.domain.events import Caller
from hostler.domain.pause_actions import (
    Action,
    ActRequest,
    AlreadyDecidedError,
    BlindDecisionError,
    NotApproverError,
    PauseExpiredError,
    Similar,
    StaleViewError,
    SupersededError,
    UnprocessableError,
)
from hostler.domain.pause_checks import check_calls
from hostler.domain.pause_decisions import PauseSnapshot, Step, at_path, decide, remaining
from hostler.domain.pause_values import DecisionData, DecisionRequest, NewCall, Pause, PausedCall, args_hash
from hostler.domain.pause_views import view_of
from hostler.domain.pauses import MAX_CALLS, CallKind, PauseStatus
from hostler.domain.tool_pins import ToolPin
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.pausing import FormField, InteractionAction

ARGUMENTS = {"item": "k1", "seats": 1}
HASH = args_hash(ARGUMENTS)
EDITED = {"item": "k1", "seats": 2}
PIN = ToolPin(tool_id="plugin:acme/shop#book", owner="acme/shop", schema_digest="s1")
NOW = 1_000


def person(subject: str = "ann", *rights: str) -> Caller:
    return Caller("w", subject, f"key of {subject}", rights=frozenset(rights or ("pauses:write",)))


def the_pause(status: PauseStatus = "open") -> Pause:
    return Pause(
        workspace_id="w",
        pause_id="p1",
        run_id="r1",
        segment=1,
        conversation_id="c1",
        requester="rita",
        status=status,
        revision=1,
        form="implicit",
        epoch=0,
        attempts=0,
        agent_version=1,
        on_message="hold",
        state=None,
        state_digest=None,
        state_blob=None,
        state_format=1,
        data_key=None,
        created_at=0,
        expires_at=None,
        parked_at=None,
        settled_at=None,
        resumed_by=None,
    )


def a_call(kind: CallKind = "approval", changes: dict[str, Any] | None = None, **asked: Any) -> PausedCall:
    asked = {"title": "t", "arguments": ARGUMENTS, "rule": ApproverRule(subjects=("*",)), "pin": PIN, **asked}
    made = PausedCall(
        workspace_id="w",
        pause_id="p1",
        run_id="r1",
        call_id="k1",
        ordinal=0,
        kind=kind,
        revision=1,
        asked=DecisionRequest(**asked),
        effective=ARGUMENTS,
        args_hash=HASH,
        edited_by=None,
        decision="undecided",
        decided_by=None,
        decided_at=None,
        given=DecisionData(),
        similar_id=None,
        execution="none",
        epoch=0,
        effect_key=None,
        resolution=0,
        review=None,
        handed_over=False,
        created_at=0,
        expires_at=NOW + 1,
    )
    return replace(made, **(changes or {}))


def act(
    call: PausedCall,
    *actions: Action,
    caller: Caller | None = None,
    status: PauseStatus = "open",
    votes: Sequence[Vote] = (),
    revision: int = 1,
) -> list[Step]:
    present = {vote.key_id: person(vote.subject) for vote in votes}
    snapshot = PauseSnapshot(the_pause(status), [call], {"k1": votes}, present, NOW)
    return decide(snapshot, caller or person(), ActRequest(revision=revision, actions=list(actions)))


APPROVE = Action(call_id="k1", type="approve", args_hash=HASH)
DENY = Action(call_id="k1", type="deny", args_hash=HASH)
FORM: list[FormField] = [FormField(name="size", type="number", required=True)]
QUESTION: dict[str, Any] = {"fields": FORM, "actions": [InteractionAction(name="ok", label="OK")]}


def test_each_action_makes_its_decision() -> None:
    (approved,) = act(a_call(), APPROVE)
    assert (approved.decision, approved.vote, approved.edited) == ("approved", "approve", None)
    (denied,) = act(a_call(), DENY)
    assert denied.decision == "denied"
    answer = Action(call_id="k1", type="answer", values={"size": 3}, action="ok")
    (answered,) = act(a_call("question", **QUESTION), answer)
    assert (answered.decision, answered.given.values, answered.given.action) == (
        "answered",
        {"size": 3},
        "ok",
    )
    (result,) = act(a_call("client_tool"), Action(call_id="k1", type="result", result=[1]))
    assert (result.decision, result.given.result, result.given.is_error) == ("answered", [1], False)
    (failed,) = act(a_call("client_tool"), Action(call_id="k1", type="error", error="broke"))
    assert (failed.decision, failed.given.result, failed.given.is_error) == ("answered", "broke", True)


REFUSED: list[tuple[str, type[Exception], PausedCall, Action, dict[str, Any]]] = [
    ("no such call", UnprocessableError, a_call(), Action(call_id="k9", type="deny", args_hash=HASH), {}),
    ("another kind", UnprocessableError, a_call(), Action(call_id="k1", type="answer"), {}),
    ("in doubt", UnprocessableError, a_call("in_doubt"), APPROVE, {}),
    ("no right", NotApproverError, a_call(), APPROVE, {"caller": person("ann", "runs:read")}),
    ("not named", NotApproverError, a_call(rule=ApproverRule(subjects=("user:bob",))), APPROVE, {}),
    ("blind", BlindDecisionError, a_call(), Action(call_id="k1", type="approve"), {}),
    ("older revision", StaleViewError, a_call(), APPROVE, {"revision": 2}),
    ("older arguments", StaleViewError, a_call(), Action(call_id="k1", type="deny", args_hash="x"), {}),
    ("its tool changed", StaleViewError, a_call(changes={"review": "changed"}), APPROVE, {}),
    ("too late", PauseExpiredError, a_call(changes={"expires_at": NOW}), APPROVE, {}),
    ("expired", PauseExpiredError, a_call(changes={"decision": "expired"}), APPROVE, {}),
    ("settled", SupersededError, a_call(), APPROVE, {"status": "superseded"}),
    ("cancelled", SupersededError, a_call(changes={"decision": "cancelled"}), APPROVE, {}),
    ("denied before", AlreadyDecidedError, a_call(changes={"decision": "denied"}), APPROVE, {}),
    (
        "no editing",
        UnprocessableError,
        a_call(),
        Action(call_id="k1", type="approve", args_hash=HASH, edited_args=EDITED),
        {},
    ),
    (
        "a locked argument",
        UnprocessableError,
        a_call(editable=True, locked=["seats"]),
        Action(call_id="k1", type="approve", args_hash=HASH, edited_args=EDITED),
        {},
    ),
    (
        "a denial with edits",
        UnprocessableError,
        a_call(editable=True),
        Action(call_id="k1", type="deny", args_hash=HASH, edited_args=EDITED),
        {},
    ),
    (
        "similar without a bound",
        UnprocessableError,
        a_call(),
        Action(call_id="k1", type="approve", args_hash=HASH, similar=Similar()),
        {},
    ),
    (
        "similar without a pin",
        UnprocessableError,
        a_call(pin=None),
        Action(call_id="k1", type="approve", args_hash=HASH, similar=Similar(uses=1)),
        {},
    ),
    (
        "a missing field",
        UnprocessableError,
        a_call("question", **QUESTION),
        Action(call_id="k1", type="answer"),
        {},
    ),
    (
        "no such button",
        UnprocessableError,
        a_call("question", **QUESTION),
        Action(call_id="k1", type="answer", values={"size": 1}, action="no"),
        {},
    ),
    ("no error text", UnprocessableError, a_call("client_tool"), Action(call_id="k1", type="error"), {}),
]


@pytest.mark.parametrize(
    ("kind", "call", "action", "facts"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_an_action_that_is_not_possible_is_refused(
    kind: type[Exception], call: PausedCall, action: Action, facts: dict[str, Any]
) -> None:
    with pytest.raises(kind):
        act(call, action, **facts)


def test_one_impossible_action_refuses_the_batch() -> None:
    with pytest.raises(UnprocessableError):
        act(a_call(), APPROVE, Action(call_id="k9", type="approve", args_hash=HASH))
    with pytest.raises(UnprocessableError):
        act(a_call(), APPROVE, DENY)
    with pytest.raises(UnprocessableError):
        act(a_call())
    assert len(act(a_call(), APPROVE, APPROVE)) == 1


@pytest.mark.parametrize(
    ("decision", "kind", "given", "action"),
    [
        ("approved", "approval", DecisionData(), APPROVE),
        ("denied", "approval", DecisionData(), DENY),
        (
            "answered",
            "client_tool",
            DecisionData(result={"a": 1}),
            Action(call_id="k1", type="result", result={"a": 1}),
        ),
        (
            "answered",
            "client_tool",
            DecisionData(result="e", is_error=True),
            Action(call_id="k1", type="error", error="e"),
        ),
    ],
)
def test_the_same_decision_again_changes_nothing(
    decision: Any, kind: CallKind, given: DecisionData, action: Action
) -> None:
    call = a_call(kind, {"decision": decision, "given": given})
    assert act(call, action) == []


def test_several_approvals_are_counted_by_subject_arguments_and_revision() -> None:
    rule = ApproverRule(subjects=("*",), min_approvals=2)

    def by(subject: str, digest: str = HASH, revision: int = 1) -> Vote:
        return Vote(f"key of {subject}", subject, "approve", digest, revision)

    cases: list[tuple[list[Vote], str | None]] = [
        ([], None),
        ([by("bob")], "approved"),
        ([by("bob", "other arguments")], None),
        ([by("bob", revision=0)], None),
    ]
    for votes, decision in cases:
        (step,) = act(a_call(rule=rule), APPROVE, votes=votes)
        assert step.decision == decision
    assert act(a_call(rule=rule), APPROVE, votes=[by("ann")]) == []
    with pytest.raises(AlreadyDecidedError):
        act(a_call(rule=rule), DENY, votes=[by("ann")])


def test_edited_arguments_are_approved_with_their_own_digest() -> None:
    action = Action(call_id="k1", type="approve", args_hash=HASH, edited_args=EDITED)
    (step,) = act(a_call(editable=True, locked=["item"]), action)
    assert (step.decision, step.edited) == ("approved", EDITED)
    blind = person("ann", "pauses:write", "pauses:decide_blind")
    edited = a_call(changes={"edited_by": "bob"})
    with pytest.raises(StaleViewError):
        act(edited, Action(call_id="k1", type="approve"), caller=blind)
    assert len(act(a_call(), Action(call_id="k1", type="approve"), caller=blind)) == 1


@pytest.mark.parametrize(
    ("path", "value"),
    [("a.b", 1), ("a.c.1", 3), ("/a/b", 1), ("/x~1y", 5), ("/m~0n", 6)],
)
def test_paths_are_dotted_or_json_pointers(path: str, value: int) -> None:
    data = {"a": {"b": 1, "c": [2, 3]}, "x/y": 5, "m~n": 6}
    assert at_path(data, path) == value
    assert at_path(data, f"{path}.0") is at_path(data, "nothing")


def test_the_view_says_who_may_decide_while_that_is_possible() -> None:
    def may(call: PausedCall, status: PauseStatus = "open", who: Caller | None = None) -> bool:
        view = view_of(the_pause(status), [call], who or person(), agent="shop", now=NOW, votes={})
        return view.calls[0].may_decide

    assert may(a_call())
    assert not may(a_call(), who=person("ann", "runs:read"))
    assert not may(a_call(changes={"expires_at": NOW}))
    assert not may(a_call(), "superseded")
    assert not may(a_call(changes={"decision": "approved"}))
    assert may(a_call(changes={"decision": "approved", "review": "revoked"}), "needs_review")
    assert remaining([a_call(), a_call(changes={"decision": "denied"})]) == 1


def test_calls_are_checked_before_people_are_asked() -> None:
    def new(call_id: str = "k1", **asked: Any) -> NewCall:
        return NewCall(call_id=call_id, kind="approval", asked=DecisionRequest(title="t", **asked))

    check_calls([new(), new("k2")])
    for calls in ([], [new(), new()], [new("")], [new("k\x00")], [new(expires_in=-1.0)]):
        with pytest.raises(InvalidArgumentError):
            check_calls(calls)
    for calls in (
        [new(f"k{n}") for n in range(MAX_CALLS + 1)],
        [new(arguments={"a": "x" * 65_536})],
        [new(description="x" * 17_000)],
        [NewCall(call_id="k1", kind="question", asked=DecisionRequest(title="x" * 501))],
    ):
        with pytest.raises(PayloadTooLargeError):
            check_calls(calls)
