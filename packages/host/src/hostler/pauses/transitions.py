"""Transitions of a pause, each in one transaction: decide, expire, cancel, resolve, supersede.

Each of them takes the run's row first, looks again, decides purely and writes. A pause that becomes ready
puts its paused run back into the queue here, so that neither is durable without the other.
"""

from __future__ import annotations

from functools import partial

import msgspec

from hostler.domain.approvers import refusal, refusal_of_kind
from hostler.domain.budgets import account_key
from hostler.domain.events import Caller
from hostler.domain.pause_actions import (
    ActionAnswer,
    ActRequest,
    NotApproverError,
    ResolveRequest,
    SupersededError,
    UnprocessableError,
)
from hostler.domain.pause_decisions import Check, PauseSnapshot, Step, already_decided, decide, remaining
from hostler.domain.pause_values import CastVote, DecisionData, Pause, PausedCall, VoteWord
from hostler.domain.pauses import MAX_SIMILAR_MINUTES, MAX_SIMILAR_USES, Decided, is_settled
from hostler.domain.record import Record
from hostler.domain.tool_pins import PresentTool
from hostler.domain.top_ups import TopUp, approved, asked_in
from hostler.storage.port import Tx
from hostler.storage.stores import (
    approval_rules,
    budgets,
    channel_people,
    pause_calls,
    pause_votes,
    pauses,
    run_endings,
    run_notes,
)
from hostler.storage.stores.run_endings import RequestedEnd
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import NotFoundError
from hostler_protocol.ids import digest

NO_ANSWER = "nobody answered in time"


class Done(Record):
    """The result of a step. `changed`: whether anything was written about the pause; `asked`: active runs
    that are to be stopped; `added`: something was added to a budget, for which other calls may wait too.
    """

    pause: Pause
    changed: bool = True
    answer: ActionAnswer | None = None
    asked: tuple[RequestedEnd, ...] = ()
    added: bool = False


# -- deciding -------------------------------------------------------------------------------------------


def look(tx: Tx, pause: Pause) -> PauseSnapshot:
    """Read the snapshot that decisions about a pause are based on."""
    cast = pause_votes.of_pause(tx, pause)
    calls = pause_calls.of_pause(tx, pause)
    present = pause_votes.key_holders(tx, pause.workspace_id, [vote.key_id for vote in cast])
    votes = {call.call_id: pause_votes.countable_votes(cast, call) for call in calls}
    return PauseSnapshot(pause, calls, votes, present, tx.now)


def rehearse(tx: Tx, caller: Caller, pause: Pause, request: ActRequest, check: Check) -> None:
    """Raise what `act` would, schemas included, without writing; done on a reader."""
    decide(look(tx, pause), caller, request, check)


def act(
    tx: Tx, caller: Caller, pause_id: str, request: ActRequest, *, request_key: str | None, body_digest: str
) -> Done:
    """Record a batch of decisions, all or none."""
    run, pause = hold(tx, caller.workspace_id, pause_id)
    if request_key is not None and (kept := answered(tx, pause, caller, request_key, body_digest)):
        return Done(pause, changed=False, answer=kept)
    steps = decide(look(tx, pause), caller, request)
    for step in steps:
        _take(tx, run, pause, step, caller)
    if steps:
        pause = go_on(tx, pauses.settle(tx, pause, actor=caller.subject), caller.subject)
    left = remaining(pause_calls.of_pause(tx, pause))
    answer = ActionAnswer(status=pause.status, remaining=left, events=f"/v1/runs/{pause.run_id}/stream")
    if request_key is not None:
        kept_answer = msgspec.json.encode(answer).decode()
        pause_votes.keep_request(tx, pause, caller, request_key, body_digest=body_digest, answer=kept_answer)
    added = any(step.call.kind == "budget" and step.decision == "approved" for step in steps)
    return Done(pause, changed=bool(steps), answer=answer, added=added)


def answered(tx: Tx, pause: Pause, caller: Caller, request_key: str, body_digest: str) -> ActionAnswer | None:
    """Return the answer stored under this Idempotency-Key, or None."""
    kept = pause_votes.find_request(tx, pause, caller, request_key)
    if kept is None:
        return None
    if kept.body_digest != body_digest:
        raise UnprocessableError(
            "this Idempotency-Key was used for other actions: take a new one", reason="key_reused"
        )
    return msgspec.json.decode(kept.answer, type=ActionAnswer)


def digest_of(request: ActRequest) -> str:
    """Return the identity of a request: equal for repeated ones."""
    return digest(msgspec.to_builtins(request))


def _take(tx: Tx, run: Run, pause: Pause, step: Step, caller: Caller) -> None:
    call = step.call
    if step.edited is not None:
        pause_calls.edit(tx, call, step.edited, caller.subject)
        call = msgspec.structs.replace(
            call,
            effective=step.edited,
            args_hash=call.asked.shown_digest(step.edited),
            edited_by=caller.subject,
        )
    pause_votes.record(tx, pause, call, step.vote, caller, comment=step.given.comment)
    if step.decision is None:
        return
    pause_calls.decide(
        tx, pause, call, step.decision, cause=step.vote, actor=caller.subject, given=step.given
    )
    if call.kind == "budget" and step.decision == "approved":
        _add_to_budget(tx, pause, call, step, caller)
    if step.similar is not None and step.decision == "approved":
        _approve_ahead(tx, run, pause, call, step, caller)


def _add_to_budget(tx: Tx, pause: Pause, call: PausedCall, step: Step, caller: Caller) -> None:
    """Add to the account that has too little left what was approved."""
    key = account_key(pause.workspace_id, asked_in(call).account)
    if key is None:
        raise RuntimeError(f"call {call.call_id} names no account")
    top_up_id, comment = digest([pause.pause_id, call.call_id, call.revision]), step.given.comment
    by = (caller.subject, caller.key_id)
    budgets.top_up(tx, TopUp(key, top_up_id, approved(call), *by, comment, pause.run_id, pause.pause_id))


def _approve_ahead(  # noqa: PLR0917
    tx: Tx, run: Run, pause: Pause, call: PausedCall, step: Step, caller: Caller
) -> None:
    """Extend an approval to similar calls: later ones, and at once those that wait in the same pause."""
    similar, tool, approved_tool = step.similar, call.asked.tool_name, call.asked.approved_tool
    if similar is None or tool is None or approved_tool is None:
        return
    uses = MAX_SIMILAR_USES if similar.uses is None else similar.uses
    minutes = float(MAX_SIMILAR_MINUTES) if similar.minutes is None else similar.minutes
    approval_rules.create(
        tx,
        run,
        caller,
        tool_name=tool,
        tool=approved_tool,
        effective=call.effective,
        arguments=similar.arguments,
        rule=call.asked.rule,
        pause_id=pause.pause_id,
        call_id=call.call_id,
        uses=uses,
        minutes=minutes,
    )
    for other in pause_calls.of_pause(tx, pause):
        if other.decision != "undecided" or other.kind != "approval" or other.asked.approved_tool is None:
            continue
        taken = approval_rules.take(
            tx,
            run,
            tool_name=other.asked.tool_name or "",
            tool=other.asked.approved_tool,
            arguments=other.effective,
            rule=other.asked.rule,
            call_id=other.call_id,
            holds=partial(pause_votes.still_stands, tx, channel_people.requester_of(tx, run)),
        )
        if taken is not None:
            pause_calls.decide(
                tx,
                pause,
                other,
                "approved",
                cause="a standing approval",
                actor=taken.subject,
                similar_id=taken.rule_id,
            )


# -- what happened to a call in doubt -------------------------------------------------------------------


def resolve(tx: Tx, caller: Caller, pause_id: str, call_id: str, request: ResolveRequest) -> Done:
    """Record what a person says of a call that may have been made. The same again changes nothing."""
    _, pause = hold(tx, caller.workspace_id, pause_id)
    call = call_to_resolve(tx, caller, pause, call_id)
    if call.review != "in_doubt":
        _check_resolved(tx, pause, call, request)
        return Done(pause, changed=False)
    pause_votes.record(
        tx, pause, call, request.outcome, caller, args_hash=str(call.resolution), comment=request.comment
    )
    given = DecisionData(comment=request.comment, result=request.result)
    happened = request.outcome == "happened"
    if call.decision == "undecided":
        decision: Decided = "answered" if happened else "approved"
        cause = "it happened" if happened else "it did not happen: it may be made"
        pause_calls.decide(
            tx,
            pause,
            call,
            decision,
            cause=cause,
            actor=caller.subject,
            given=given if happened else DecisionData(comment=request.comment),
        )
    pause_calls.execute(
        tx,
        pause,
        call,
        "succeeded" if happened else "none",
        cause="a person said so",
        actor=caller.subject,
        resolution=call.resolution if happened else call.resolution + 1,
        given=given if happened else DecisionData(comment=request.comment),
    )
    return Done(go_on(tx, pauses.settle(tx, pause, actor=caller.subject), caller.subject))


def call_to_resolve(tx: Tx, caller: Caller, pause: Pause, call_id: str) -> PausedCall:
    """The call, if the caller may say what became of it and it was ever in doubt."""
    call = pause_calls.find(tx, pause, call_id)
    if call is None:
        raise UnprocessableError(f"this pause has no call {call_id!r}", reason="unknown_call")
    refused = refusal_of_kind("in_doubt", call.asked.rule, caller, pause.requester)
    if refused is not None:
        raise NotApproverError(refused, call_id=call_id)
    if call.execution == "in_doubt" and is_settled(pause.status):
        text = f"this pause is {pause.status}: nothing waits for what became of call {call_id!r}"
        raise SupersededError(text, status=pause.status)
    if call.review != "in_doubt" and not _resolutions(tx, pause, call):
        raise UnprocessableError(f"call {call_id!r} is not in doubt", reason="wrong_kind", kind=call.kind)
    return call


def _resolutions(tx: Tx, pause: Pause, call: PausedCall) -> list[CastVote]:
    words: set[VoteWord] = {"happened", "not_happened"}
    of_call = [vote for vote in pause_votes.of_pause(tx, pause) if vote.call_id == call.call_id]
    return [vote for vote in of_call if vote.vote in words]


def _check_resolved(tx: Tx, pause: Pause, call: PausedCall, request: ResolveRequest) -> None:
    last = max(_resolutions(tx, pause, call), key=lambda vote: int(vote.args_hash))
    same_result = last.vote == "not_happened" or digest(call.given.result) == digest(request.result)
    if last.vote != request.outcome or not same_result:
        raise already_decided(call, last.vote, last.subject)


def tool_is_back(tx: Tx, waiting: PausedCall, tool: PresentTool) -> Done | None:
    """Ask again about a call whose tool was gone. None: it does not wait for that any more."""
    _, pause = hold(tx, waiting.workspace_id, waiting.pause_id)
    call = pause_calls.find(tx, pause, waiting.call_id)
    if call is None or call.review != "changed" or pause.status != "needs_review":
        return None
    cause = "its tool is back"
    pause_calls.ask_again(tx, pause, call, cause=cause, actor="host", review=None, tool=tool)
    return Done(pauses.settle(tx, pause, actor="host"))


# -- ending it ------------------------------------------------------------------------------------------


def sweep(tx: Tx, workspace_id: str, pause_id: str) -> Done | None:
    """Expire calls that were not answered in time, or continue a ready pause. None: nothing to do."""
    run, pause = hold(tx, workspace_id, pause_id)
    if pause.status == "ready" and run.status == "paused":
        return Done(go_on(tx, pause, "clock"))
    late = pauses.expire(tx, pause)
    if not late:
        return None
    if any(call.asked.on_expiry == "cancel" for call in late):
        return _cancel(tx, pause, cause=NO_ANSWER, actor="clock")
    return Done(go_on(tx, pauses.settle(tx, pause, actor="clock"), "clock"))


def cancel(tx: Tx, caller: Caller, pause_id: str, reason: str | None) -> Done:
    """Cancel a pause, and its run with it. Cancelled already: nothing changes."""
    _, pause = hold(tx, caller.workspace_id, pause_id)
    calls = pause_calls.of_pause(tx, pause)
    may = [refusal(call.asked.rule, caller, pause.requester) for call in calls]
    if caller.subject != pause.requester and all(may):
        raise NotApproverError(may[0] or "this is not for you to cancel")
    if pause.status == "cancelled":
        return Done(pause, changed=False)
    if pause.status not in {"open", "needs_review"}:
        raise SupersededError(f"this pause is {pause.status}: it cannot be cancelled", status=pause.status)
    return _cancel(tx, pause, cause=reason or f"cancelled by {caller.subject}", actor=caller.subject)


def _cancel(tx: Tx, pause: Pause, *, cause: str, actor: str) -> Done:
    closed = pauses.close(tx, pause, "cancelled", cause=cause, actor=actor)
    asked = run_endings.request_cancel(tx, pause.workspace_id, pause.run_id, reason=cause, actor=actor)
    return Done(closed, asked=tuple(asked))


def supersede(tx: Tx, run_id: str, *, cause: str, actor: str) -> Done | None:
    """A new message takes the place of an open pause: its calls are closed and its run ends, all at once.

    None: the run has no open pause. `asked`: it was under way, and the host that executes it has to stop it.
    """
    run = run_notes.hold(tx, run_id)
    pause = pauses.unsettled(tx, run_id)
    if run is None or pause is None or pause.status != "open":
        return None
    closed = pauses.close(tx, pause, "superseded", cause=cause, actor=actor)
    asked = run_endings.request_cancel(tx, run.workspace_id, run_id, reason=cause, actor=actor)
    return Done(closed, asked=tuple(asked))


# -- going on -------------------------------------------------------------------------------------------


def go_on(tx: Tx, pause: Pause, actor: str) -> Pause:
    """Queue the paused run of a pause that is ready; where it holds the calls itself it goes on as it is.

    Its deadline stood still meanwhile.
    """
    if pause.status != "ready":
        return pause
    run = run_notes.hold(tx, pause.run_id)
    if run is not None and run.status == "paused":
        deadline = run.deadline_at
        if deadline is not None and pause.parked_at is not None:
            deadline += tx.now - pause.parked_at
        run_endings.begin_again(
            tx, run.run_id, run.attempt, cause="the decisions are in", actor=actor, deadline_at=deadline
        )
    return pause


def hold(tx: Tx, workspace_id: str, pause_id: str) -> tuple[Run, Pause]:
    """Lock the pause and its run until this transaction ends, and return them. NotFoundError."""
    found = pauses.get(tx, workspace_id, pause_id)
    run = run_notes.hold(tx, found.run_id)
    if run is None:
        raise NotFoundError(f"there is no pause {pause_id!r}")
    return run, pauses.get(tx, workspace_id, pause_id)
