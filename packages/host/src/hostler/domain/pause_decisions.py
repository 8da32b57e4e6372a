"""Decide what actions of people and clients do to waiting calls. Pure; pauses/transitions applies it.

A batch is all or nothing: the first invalid action refuses all of them. Repeating an earlier decision changes
nothing; a different one is refused with an error that names the decision and its author.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hostler.domain.approvers import BLIND_RIGHTS, Vote, refusal_of_kind, tally
from hostler.domain.epoch import seconds
from hostler.domain.events import Caller
from hostler.domain.forms import check_values
from hostler.domain.pause_actions import (
    Action,
    ActionType,
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
from hostler.domain.pause_checks import check_size
from hostler.domain.pause_values import DecisionData, Pause, PausedCall
from hostler.domain.pauses import (
    MAX_ARGUMENTS_BYTES,
    MAX_CALLS,
    MAX_COMMENT_BYTES,
    MAX_RESULT_BYTES,
    MAX_SIMILAR_MINUTES,
    MAX_SIMILAR_USES,
    CallKind,
    Decided,
    is_settled,
)
from hostler.domain.record import Record
from hostler.domain.top_ups import check_may_add
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import canonical_json

Check = Callable[[Mapping[str, Any], Any, str], None]
"""Check a value against a JSON Schema: (schema, value, its name). InvalidArgumentError names the path."""

POSSIBLE: dict[CallKind, frozenset[ActionType]] = {
    "approval": frozenset({"approve", "deny"}),
    "client_tool": frozenset({"result", "error"}),
    "question": frozenset({"answer"}),
    "in_doubt": frozenset(),
    "budget": frozenset({"approve", "deny"}),
}
"""Possible actions by kind of call; a call in doubt is resolved instead."""
_OF_ARGUMENTS: frozenset[ActionType] = frozenset({"approve", "deny"})
"""Actions that depend on the arguments that were shown."""
_ABSENT = object()


class PauseSnapshot(Record):
    """The state from which a decision is made. `present`: the current callers by key id, for the keys of all
    voters; `now` in UTC epoch milliseconds by the database's clock.
    """

    pause: Pause
    calls: Sequence[PausedCall]
    votes: Mapping[str, Sequence[Vote]]
    """By call id."""
    present: Mapping[str, Caller]
    now: int


class Step(Record):
    """The effect of one action: a vote, and the call's decision (None: further votes are needed)."""

    call: PausedCall
    vote: ActionType
    decision: Decided | None
    given: DecisionData = msgspec.field(default_factory=DecisionData)
    edited: dict[str, Any] | None = None
    """The arguments that replace the current ones."""
    similar: Similar | None = None


def decide(
    snapshot: PauseSnapshot, caller: Caller, request: ActRequest, check: Check | None = None
) -> list[Step]:
    """Return the steps of a batch; none if all of it was decided the same way before.

    `check` None: schemas were already checked. Raises the errors of domain/pause_actions, and
    PayloadTooLargeError.
    """
    if not request.actions or len(request.actions) > MAX_CALLS:
        raise UnprocessableError(f"actions: expected 1 to {MAX_CALLS}", reason="schema")
    calls = {call.call_id: call for call in snapshot.calls}
    named: dict[str, Action] = {}
    for action in request.actions:
        if action.call_id not in calls:
            raise UnprocessableError(
                f"this pause has no call {action.call_id!r}", reason="unknown_call", call_id=action.call_id
            )
        if named.setdefault(action.call_id, action) != action:
            raise UnprocessableError(
                f"call {action.call_id!r} appears twice, with different actions", reason="schema"
            )
    for call_id, action in named.items():
        _check_caller(snapshot.pause, calls[call_id], caller)
        if action.type in _OF_ARGUMENTS and action.args_hash is None and not caller.rights & BLIND_RIGHTS:
            raise BlindDecisionError(call_id)
    if request.revision != snapshot.pause.revision:
        raise StaleViewError(
            f"the pause is at revision {snapshot.pause.revision}, not {request.revision}: look at it again",
            revision=snapshot.pause.revision,
        )
    steps = [_step(snapshot, calls[call_id], action, caller, check) for call_id, action in named.items()]
    return [step for step in steps if step is not None]


def _check_caller(pause: Pause, call: PausedCall, caller: Caller) -> None:
    refused = refusal_of_kind(call.kind, call.asked.rule, caller, pause.requester)
    if refused is not None:
        raise NotApproverError(refused, call_id=call.call_id)


def _step(
    snapshot: PauseSnapshot, call: PausedCall, action: Action, caller: Caller, check: Check | None
) -> Step | None:
    if action.type not in POSSIBLE[call.kind]:
        possible = ", ".join(sorted(POSSIBLE[call.kind])) or "to resolve it: it may have been made"
        raise UnprocessableError(
            f"call {call.call_id!r} is a {call.kind}: possible is {possible}",
            reason="wrong_kind",
            call_id=call.call_id,
            kind=call.kind,
        )
    check_size(action.comment, MAX_COMMENT_BYTES, "comment")
    if call.decision != "undecided":
        _check_repeated(snapshot.pause, call, action)
        return None
    _check_time(snapshot, call)
    match action.type:
        case "approve":
            return _approve(snapshot, call, action, caller, check)
        case "deny":
            return _deny(snapshot, call, action, caller)
        case "answer":
            return _answer(call, action)
        case _:
            return _client_result(call, action, check)


def _check_time(snapshot: PauseSnapshot, call: PausedCall) -> None:
    pause = snapshot.pause
    if is_settled(pause.status):
        raise SupersededError(f"this pause is {pause.status}", status=pause.status)
    if pause.status == "open" and call.expires_at is not None and call.expires_at <= snapshot.now:
        raise expired(call)


def expired(call: PausedCall) -> PauseExpiredError:
    """Return the error for a call that expired."""
    return PauseExpiredError(
        f"call {call.call_id!r} has expired: nobody answered in time, and nothing was executed",
        call_id=call.call_id,
        decision="expired",
    )


# -- repeated decisions ---------------------------------------------------------------------------------


def _check_repeated(pause: Pause, call: PausedCall, action: Action) -> None:
    """Pass if the same was decided; else raise the error that names the decision."""
    if call.decision == "expired":
        raise expired(call)
    if call.decision == "cancelled":
        raise SupersededError(f"this pause is {pause.status}", status=pause.status)
    if not _is_same(call, action):
        raise already_decided(call, call.decision, call.decided_by)


def already_decided(call: PausedCall, decision: str, by: str | None) -> AlreadyDecidedError:
    """Return the error for a call that was decided otherwise."""
    return AlreadyDecidedError(
        f"call {call.call_id!r} was {decision} by {by} already",
        call_id=call.call_id,
        decision=decision,
        decided_by=by,
        decided_at=seconds(call.decided_at),
    )


def _is_same(call: PausedCall, action: Action) -> bool:
    match action.type:
        case "approve":
            return call.decision == "approved" and _is_of_these_arguments(call, action)
        case "deny":
            return call.decision == "denied"
        case "answer":
            given = call.given
            same = given.action == action.action and _equal(given.values, _filled_in(call, action))
            return call.decision == "answered" and same
        case "error":
            is_error = call.decision == "answered" and call.given.is_error
            return is_error and call.given.result == _error_of(action)
        case "result":
            is_result = call.decision == "answered" and not call.given.is_error
            return is_result and _equal(call.given.result, action.result)


def _is_of_these_arguments(call: PausedCall, action: Action) -> bool:
    if action.edited_args is not None:
        return call.asked.shown_digest(action.edited_args) == call.args_hash
    if action.args_hash is not None:
        return action.args_hash == call.args_hash
    return call.edited_by is None


# -- approvals ------------------------------------------------------------------------------------------


def _approve(
    snapshot: PauseSnapshot, call: PausedCall, action: Action, caller: Caller, check: Check | None
) -> Step | None:
    if call.kind == "budget":
        check_may_add(call, caller)
    if call.review is not None:
        raise StaleViewError(
            f"call {call.call_id!r} can be denied, not approved: its tool is not the one that was shown",
            call_id=call.call_id,
        )
    edited = _edited(call, action, check)
    effective = call.args_hash if edited is None else call.asked.shown_digest(edited)
    votes = list(snapshot.votes.get(call.call_id, ()))
    mine = [vote for vote in votes if vote.subject == caller.subject and vote.revision == call.revision]
    for vote in mine:
        if vote.kind == "deny":
            raise already_decided(call, "denied", caller.subject)
    if any((vote.args_hash, vote.key_id) == (effective, caller.key_id) for vote in mine):
        return None  # a repeated vote; others are still needed
    votes.append(Vote(caller.key_id, caller.subject, "approve", effective, call.revision))
    counted = tally(
        call.asked.rule,
        snapshot.pause.requester,
        votes,
        {**snapshot.present, caller.key_id: caller},
        args_hash=effective,
        revision=call.revision,
    )
    if action.similar is not None:
        _check_similar(call, action.similar)
    return Step(
        call,
        "approve",
        "approved" if counted.outcome == "approved" else None,
        DecisionData(comment=action.comment),
        edited,
        action.similar,
    )


def _edited(call: PausedCall, action: Action, check: Check | None) -> dict[str, Any] | None:
    """Return the arguments that replace those shown; None if there are none or they are equal."""
    shown = action.args_hash
    if shown is None and call.edited_by is not None:
        raise StaleViewError(
            f"call {call.call_id!r}: {call.edited_by} edited the arguments; send args_hash of what you saw",
            call_id=call.call_id,
            args_hash=call.args_hash,
        )
    if shown is not None and shown != call.args_hash:
        raise StaleViewError(
            f"call {call.call_id!r}: arguments or tool are no longer those with this digest: look again",
            call_id=call.call_id,
            args_hash=call.args_hash,
        )
    if action.edited_args is None or call.asked.shown_digest(action.edited_args) == call.args_hash:
        return None
    if not call.asked.editable:
        raise _unfit(call, "the policy of this tool does not permit edits of the arguments")
    check_size(action.edited_args, MAX_ARGUMENTS_BYTES, "edited_args")
    for path in call.asked.locked:
        before, now = at_path(call.asked.arguments, path), at_path(action.edited_args, path)
        if before is not now and (before is _ABSENT or now is _ABSENT or not _equal(before, now)):
            raise _unfit(call, f"edited_args: {path!r} is locked and must stay as it was proposed")
    _check_schema(call, check, call.asked.args_schema, action.edited_args, "edited_args")
    return action.edited_args


def _deny(snapshot: PauseSnapshot, call: PausedCall, action: Action, caller: Caller) -> Step:
    if action.edited_args is not None or action.similar is not None:
        raise _unfit(call, "edited_args and similar belong to an approval")
    if action.args_hash is not None and action.args_hash != call.args_hash:
        raise StaleViewError(
            f"call {call.call_id!r}: arguments or tool are no longer those with this digest: look again",
            call_id=call.call_id,
            args_hash=call.args_hash,
        )
    for vote in snapshot.votes.get(call.call_id, ()):
        if vote.subject == caller.subject and vote.revision == call.revision:
            raise already_decided(call, "approved", caller.subject)
    return Step(call, "deny", "denied", DecisionData(comment=action.comment))


def _check_similar(call: PausedCall, similar: Similar) -> None:
    if call.asked.pin is None:
        raise _unfit(call, "similar: only calls that the host carries out can be approved ahead")
    if call.asked.rule.min_approvals > 1:
        raise _unfit(call, "similar: what needs several approvals cannot be approved ahead")
    if similar.uses is None and similar.minutes is None:
        raise _unfit(call, "similar: say for how many uses, or for how many minutes")
    if similar.uses is not None and not 1 <= similar.uses <= MAX_SIMILAR_USES:
        raise _unfit(call, f"similar.uses: expected 1 to {MAX_SIMILAR_USES}")
    if similar.minutes is not None and not 0 < similar.minutes <= MAX_SIMILAR_MINUTES:
        raise _unfit(call, f"similar.minutes: expected more than 0 and at most {MAX_SIMILAR_MINUTES}")


# -- answers of clients and people ----------------------------------------------------------------------


def _client_result(call: PausedCall, action: Action, check: Check | None) -> Step:
    if action.type == "error":
        error = _error_of(action)
        if not error:
            raise _unfit(call, "error: say what went wrong")
        check_size(error, MAX_RESULT_BYTES, "error")
        return Step(
            call, "error", "answered", DecisionData(comment=action.comment, result=error, is_error=True)
        )
    check_size(action.result, MAX_RESULT_BYTES, "result (upload what is larger as an artifact and name it)")
    _check_schema(call, check, call.asked.result_schema, action.result, "result")
    return Step(call, "result", "answered", DecisionData(comment=action.comment, result=action.result))


def _error_of(action: Action) -> str:
    if action.error is not None:
        return action.error
    return action.result if isinstance(action.result, str) else action.comment or ""


def _filled_in(call: PausedCall, action: Action) -> dict[str, Any]:
    try:
        return check_values(call.asked.fields, action.values or {})
    except InvalidArgumentError as error:
        raise UnprocessableError(
            error.message, reason="schema", call_id=call.call_id, **error.details
        ) from error


def _answer(call: PausedCall, action: Action) -> Step:
    values = _filled_in(call, action)
    names = [button.name for button in call.asked.actions]
    if action.action is not None and action.action not in names:
        raise _unfit(call, f"action: expected one of {', '.join(names) or 'none, there are no buttons'}")
    given = DecisionData(comment=action.comment, values=values, action=action.action)
    return Step(call, "answer", "answered", given)


def _check_schema(
    call: PausedCall, check: Check | None, schema: Mapping[str, Any] | None, value: Any, what: str
) -> None:
    if check is None or schema is None:
        return
    try:
        check(schema, value, what)
    except InvalidArgumentError as error:
        raise _unfit(call, error.message) from error


def _unfit(call: PausedCall, message: str) -> UnprocessableError:
    return UnprocessableError(message, reason="schema", call_id=call.call_id)


def at_path(value: Any, path: str) -> Any:
    """Return the value at `path`: names and indices joined by dots, or a JSON pointer; `_ABSENT` if none."""
    parts: Iterable[str] = path.split(".")
    if path.startswith("/"):
        parts = (part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return _ABSENT
    return value


def remaining(calls: Iterable[PausedCall]) -> int:
    """Return the number of undecided calls."""
    return sum(call.decision == "undecided" for call in calls)


def _equal(one: Any, other: Any) -> bool:
    return canonical_json(one) == canonical_json(other)
