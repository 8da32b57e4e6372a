"""Requests to people and to the client as interrupts, and the values of `Command(resume)` as their answers.

An approval is a request of LangChain's human-in-the-loop middleware, a tool of the client one of its headless
tools, so that their clients know what to show. The id of an interrupt carries what was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hostler.domain.legacy_actions import ResumeAction
from hostler.domain.pause_actions import StaleViewError, UnprocessableError
from hostler.domain.run_events import Asked
from hostler.http.dialects.answers import call_id_of
from hostler.http.dialects.decisions import CallResult
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.requests import answer_schema, read_request_id, request_id, unseen_id
from hostler_protocol.errors import ConflictError, NotFoundError

_YES = frozenset({"approve", "accept", "edit"})
_NO = frozenset({"reject", "ignore", "response"})


def interrupt_of(run_id: str, asked: Asked) -> dict[str, Any]:
    """Return what a run waits for as an interrupt."""
    request = asked.request
    own: dict[str, Any] = {"kind": request.kind, "call_id": request.call_id}
    if request.args_hash is not None:
        own["args_hash"] = request.args_hash
    if request.expires_at is not None:
        own["expires_at"] = request.expires_at
    value: dict[str, Any]
    if request.kind == "client_tool":
        tool_call_id = call_id_of(Answer(run_id), asked.key or request.call_id)
        value = {
            "type": "tool",
            "toolCall": {"id": tool_call_id, "name": request.tool_name, "args": request.arguments},
        }
        schema = None
    else:
        schema = answer_schema(request)
        text = "\n".join(one for one in (request.title, request.description) if one)
        if request.kind in ("approval", "budget"):
            name = request.tool_name or request.kind
            value = {
                "action_requests": [{"name": name, "args": request.arguments, "description": text}],
                "review_configs": [{"action_name": name, "allowed_decisions": ["approve", "reject"]}],
            }
        else:
            value = {"question": text, "response_schema": schema}
            if request.actions:
                value["actions"] = msgspec.to_builtins(request.actions)
            if request.kind == "in_doubt":
                value["tool"] = {"name": request.tool_name, "args": request.arguments}
    value["hostler"] = own
    return {"value": value, "id": request_id(run_id, request), "response_schema": schema}


Answers = tuple[list[ResumeAction], list[CallResult]]


def answers_of(run_id: str, resume: Any, waiting: Mapping[str, Asked]) -> Answers:
    """Return the decisions that a value of `Command(resume)` takes, in a run. `waiting`: its open requests.

    A value is keyed by the ids of interrupts or of the tools' calls, or is the answer to the only one. Raises
    ConflictError if nothing waits, UnprocessableError if the value does not say what it answers,
    StaleViewError if it does not name an interrupt whose tool has changed since it was first asked for.
    """
    keyed = _of_calls(run_id, resume, waiting)  # first: such an id may look like that of an interrupt
    if keyed is None:
        keyed = _keyed(resume)
    if keyed is None:
        if not waiting:
            raise ConflictError("nothing waits in this thread: there is nothing to resume")
        if len(waiting) > 1:
            names = [request_id(run_id, one.request) for one in waiting.values()]
            raise UnprocessableError(
                f"{len(waiting)} interrupts wait: key the values of resume by their ids ({', '.join(names)})",
                reason="schema",
                interrupts=names,
            )
        keyed = {_unseen(run_id, one): resume for one in waiting.values()}
    entries: list[ResumeAction] = []
    results: list[CallResult] = []
    for name, value in keyed.items():
        named = read_request_id(name)
        asked = waiting.get(named.call_id)
        if asked is not None and asked.request.kind == "client_tool" and asked.key is not None:
            results.append(_result(call_id_of(Answer(named.run_id), asked.key), value))
        else:
            entries.append(ResumeAction(interrupt_id=name, payload=payload_of(value, asked)))
    return entries, results


def run_of(resume: Any) -> str | None:
    """Return the run whose interrupts a value of `Command(resume)` names; None if it names none."""
    keyed = _keyed(resume)
    return None if keyed is None else read_request_id(next(iter(keyed))).run_id


def _keyed(resume: Any) -> dict[str, Any] | None:
    if not isinstance(resume, dict) or not resume:
        return None
    try:
        for name in resume:
            read_request_id(name)
    except NotFoundError:
        return None
    return resume


def _of_calls(run_id: str, resume: Any, waiting: Mapping[str, Asked]) -> dict[str, Any] | None:
    if not isinstance(resume, dict) or not resume:
        return None
    by_call = {call_id_of(Answer(run_id), one.key): one for one in waiting.values() if one.key is not None}
    if not all(name in by_call for name in resume):
        return None
    return {_unseen(run_id, by_call[name]): value for name, value in resume.items()}


def _unseen(run_id: str, asked: Asked) -> str:
    """Return the id of a request for a value that does not name it.

    StaleViewError if the tool has changed since it was first asked for: such a value does not say which of
    the two was shown.
    """
    request = asked.request
    unseen, name = unseen_id(run_id, request), request_id(run_id, request)
    if request.kind != "client_tool" and request.args_hash is not None and unseen != name:
        raise StaleViewError(
            f"the tool {request.tool_name!r} has changed since this was first asked: look at it again, and"
            f" key the value of resume by the id of the interrupt ({name})",
            call_id=request.call_id,
            args_hash=request.args_hash,
            interrupts=[name],
        )
    return unseen


def _result(tool_call_id: str, value: Any) -> CallResult:
    if isinstance(value, dict) and list(value) == [tool_call_id]:
        value = value[tool_call_id]
    if isinstance(value, dict) and list(value) == ["error"]:
        error = value["error"]
        return CallResult(tool_call_id, None, error if isinstance(error, str) else str(error))
    return CallResult(tool_call_id, value)


def payload_of(value: Any, asked: Asked | None) -> Any:
    """Return the payload of a decision: of the human-in-the-loop middleware, of agent inboxes, or as is."""
    if isinstance(value, dict) and isinstance(value.get("decisions"), list) and len(value["decisions"]) == 1:
        value = value["decisions"][0]
    elif isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        kind = value["type"]
        if kind in _YES | _NO:
            return _decision(kind, value)
    if asked is not None and not isinstance(value, dict) and len(asked.request.fields) == 1:
        return {asked.request.fields[0].name: value}
    return value


def _decision(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    payload: dict[str, Any] = {"approved": kind in _YES}
    comment = value.get("message") or (value.get("args") if kind == "response" else None)
    if isinstance(comment, str):
        payload["comment"] = comment
    if kind == "edit":
        edited = value.get("edited_action") or value.get("editedAction") or value.get("args")
        args = edited.get("args") if isinstance(edited, dict) else None
        if not isinstance(args, dict):
            raise UnprocessableError(
                "an edit needs the whole arguments: expected"
                ' {"type": "edit", "edited_action": {"name": ..., "args": {...}}}',
                reason="schema",
            )
        payload["editedArgs"] = args
    return payload
