"""`resume` entries, and results of the client's tools, as decisions of the pause that a run waits with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.legacy_actions import ResumeAction, ToolMessage, action_of_message, action_of_resume
from hostler.domain.pause_actions import Action, ResolveRequest, UnprocessableError
from hostler.domain.pause_views import CallView, PauseView
from hostler.domain.record import Record
from hostler.domain.run_events import Asked
from hostler.http.dialects.answers import read_call_id
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.paused_calls import (
    answer_after,
    decide,
    find_calls,
    find_calls_of_pause,
    waiting_calls,
)
from hostler.http.dialects.requests import (
    NamedCall,
    check_shown,
    is_about_doubt,
    read_request_id,
    requests_of,
    resolution_of,
    resolve_doubt,
)
from hostler.http.request import ApiRequest
from hostler.storage.stores import runs
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import InvalidArgumentError, NotFoundError

NOT_DECIDED = frozenset({"expired", "cancelled"})
"""Outcomes of calls that nobody decided: to abandon such a one changes nothing."""


class CallResult(Record):
    """The result of a tool of the client. `tool_call_id`: as of `call_id_of`, with the key of the call."""

    tool_call_id: str
    content: Any
    error: str | None = None


@dataclass(slots=True)
class Decided:
    """What became of the decisions. `repeated`: all had been taken before.

    `waiting`: requests of the pause that still wait, in order; the run goes on once there is none.
    """

    answer: Answer
    repeated: bool
    waiting: tuple[Asked, ...] = ()


@dataclass(slots=True)
class _Named:
    """The calls that a request decides, by the host's ids."""

    entries: dict[str, tuple[ResumeAction, NamedCall]] = field(default_factory=dict)
    results: dict[str, CallResult] = field(default_factory=dict)


async def take_decisions(
    request: ApiRequest,
    agent: str,
    thread_id: str,
    entries: Sequence[ResumeAction],
    results: Sequence[CallResult],
) -> Decided:
    """Decide what a run of a thread waits for.

    Nothing is done unless all of it is about what is to be decided now, and says what its kind asks. Then the
    doubts are resolved one by one, and after them the other calls are decided, all or none, or the pause is
    cancelled if a question is abandoned. If one of these is refused (the caller may not decide a call, values
    do not fit its schema, it was decided otherwise), the doubts before it stay resolved: the same request
    again changes nothing in them.

    Raises as `decide`, NotFoundError for what does not wait in this thread, and UnprocessableError if entries
    leave an interrupt out that the caller may decide.
    """
    names = [(entry, read_request_id(entry.interrupt_id)) for entry in entries]
    calls = [(message, read_call_id(message.tool_call_id)) for message in results]
    run_ids = {named.run_id for _, named in names} | {run_id for _, (run_id, _) in calls}
    if len(run_ids) != 1:
        raise InvalidArgumentError("answer what one run waits for, not several at a time")
    (run_id,) = run_ids
    await get_run(request, agent, thread_id, run_id)
    asked = await requests_of(request, run_id)
    named = _Named({one.call_id: (entry, one) for entry, one in names})
    by_key = {one.key: call_id for call_id, one in asked.items() if one.key is not None}
    for message, (_, key) in calls:
        if key not in by_key:
            raise NotFoundError(f"no call {message.tool_call_id!r} waits for its result")
        named.results[by_key[key]] = message
    pause, found = await find_calls_of_pause(request, run_id, [*named.entries, *named.results])
    _check_complete(pause, named)
    repeated = all(call.decision != "undecided" and call.review is None for call in found)
    answer = await _decide(request, pause, found, named)
    ((after, _),) = await find_calls(request, run_id, [found[0].call_id])
    still = {call.call_id for call in waiting_calls(after)}
    return Decided(answer, repeated, tuple(one for call_id, one in asked.items() if call_id in still))


async def get_run(request: ApiRequest, agent: str, thread_id: str, run_id: str) -> Run:
    """Return a run of an agent in a thread, by the host's id. NotFoundError for any other."""
    run = await request.state.host.db.read(lambda tx: runs.find(tx, request.workspace_id, run_id))
    if run is None or run.conversation_id != thread_id or run.agent_name != agent:
        raise NotFoundError(f"this thread of the agent {agent!r} has no run {run_id[:100]!r}")
    return run


def _check_complete(pause: PauseView, named: _Named) -> None:
    """Raise UnprocessableError if interrupts are answered, but not all that the caller may decide."""
    if not named.entries:
        return
    left = [
        call.call_id
        for call in waiting_calls(pause)
        if call.kind != "client_tool" and call.may_decide and call.call_id not in named.entries
    ]
    if left:
        raise UnprocessableError(
            f"resume leaves out {len(left)} of the interrupts of the run: answer or cancel each of them"
            f" (calls {', '.join(left)})",
            reason="uncovered_interrupts",
            call_ids=left,
        )


async def _decide(request: ApiRequest, pause: PauseView, calls: Sequence[CallView], named: _Named) -> Answer:
    others: list[CallView] = []
    doubts: list[tuple[CallView, ResolveRequest]] = []
    abandoned = False
    for call in calls:
        if call.call_id in named.results:
            others.append(call)
            continue
        entry, one = named.entries[call.call_id]
        if entry.status == "cancelled" and call.decision in NOT_DECIDED:
            continue
        payload = entry.payload if entry.status == "resolved" else None
        if is_about_doubt(call, payload):
            check_shown(entry.interrupt_id, one, call)
            doubts.append((call, resolution_of(call, payload)))
        elif entry.status == "cancelled" and call.kind == "question":
            abandoned = True
        else:
            others.append(call)
    actions = [] if abandoned else [_action_of(call, named) for call in others]
    for call, said in doubts:
        await resolve_doubt(request, pause, call, said)
    if abandoned:
        await request.state.host.pauses.cancel(
            request.caller, pause.id, reason="its question was abandoned by the client"
        )
    elif actions:
        return (await decide(request, pause.run_id, [(action.call_id, action) for action in actions]))[0]
    return (await answer_after(request, pause.run_id, [call.call_id for call in calls]))[0]


def _action_of(call: CallView, named: _Named) -> Action:
    if call.call_id in named.results:
        return _result_of(named.results[call.call_id], call)
    return action_for(*named.entries[call.call_id], call)


def _result_of(message: CallResult, call: CallView) -> Action:
    if message.error is not None:
        return Action(call_id=call.call_id, type="error", error=message.error or "it failed")
    content = _content_of(message.content)
    return action_of_message(ToolMessage(tool_call_id=call.call_id, content=content), call)


def _content_of(content: Any) -> Any:
    """Return the content of a tool message; parts that are all text as one text."""
    if isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
        for part in content
    ):
        return "".join(part["text"] for part in content)
    return content


def action_for(entry: ResumeAction, named: NamedCall, call: CallView) -> Action:
    """Return the decision that a `resume` entry takes.

    StaleViewError if other arguments were shown than are to be decided now; UnprocessableError if the payload
    decides nothing.
    """
    payload = entry.payload
    edited = payload.get("editedArgs") if isinstance(payload, dict) else None
    check_shown(entry.interrupt_id, named, call, edited)
    if call.kind in ("approval", "budget") and entry.status == "resolved" and not _decides(payload):
        raise UnprocessableError(
            f"the payload of {entry.interrupt_id[:200]!r} decides nothing: expected"
            ' {"approved": true} or {"approved": false}',
            reason="schema",
            call_id=call.call_id,
        )
    if call.kind == "question" and not isinstance(payload, dict):
        raise UnprocessableError(
            f"the payload of {entry.interrupt_id[:200]!r} is no object: expected the values of its form",
            reason="schema",
            call_id=call.call_id,
        )
    action = action_of_resume(entry, call)
    if action.type in ("approve", "deny") and action.args_hash is None:
        action = msgspec.structs.replace(action, args_hash=call.args_hash)
    return action


def _decides(payload: Any) -> bool:
    return isinstance(payload, bool) or (
        isinstance(payload, dict) and isinstance(payload.get("approved"), bool)
    )
