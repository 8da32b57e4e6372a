"""Fold an answer into the response to a call: notifications on the way, and one result.

Text comes as progress, if the client asked for it, and once more in the result, whose texts are the agent's
complete messages. Tool calls, reasoning and attempts are log messages. What people have to decide is a
request to the client (sessions), the reason for which the call is to be repeated (stateless), or a text.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from hostler.domain.record import Record
from hostler.domain.run_events import (
    ActionWanted,
    Asked,
    AttemptBegan,
    Completed,
    ContentAdded,
    Failed,
    FileMade,
    MessageEnded,
    ReasoningAdded,
    ReasoningEnded,
    RunEvent,
    TextAdded,
    ToolCalled,
    ToolDropped,
    ToolReturned,
)
from hostler.http.dialects.files import ShownFile, shown_file
from hostler.http.dialects.fold import CLIENT_TOOLS, Answer, Ending, Fold, Waiting
from hostler.http.dialects.notices import where_to_decide
from hostler.http.dialects.placeholders import (
    EVENT_IDS,
    PROGRESS_TOKEN,
    REQUEST_ID,
    REQUEST_STATE,
    Filling,
    as_json,
    filling_of,
)
from hostler.http.mcp.dialect import error_object
from hostler.http.mcp.elicitation import ELICITED, form_id, form_of
from hostler.http.mcp.levels import LEVELS
from hostler.http.mcp.messages import RequestId, text_block, tool_error
from hostler.http.mcp.uris import artifact_uri
from hostler.http.problems import Problem
from hostler_protocol.content import Usage

RETRY_MILLISECONDS = 500
"""How long a client of a session waits before it continues a stream that broke."""
RELATED_TASK = "io.modelcontextprotocol/related-task"
_encoder = msgspec.json.Encoder(enc_hook=as_json)


class CallFacts(Record):
    """What the response to a call says besides results.

    `progress`: the token for the text as it comes. `level`: the least important log messages that are wanted;
    None: none. `elicits`: the client can ask its user. `event_ids`: what the ids of events begin with; None:
    they have none. `state`: with what a stateless call is repeated; None: the call is of a session. `task`:
    the id of the task whose result this is. `with_placeholders`: the frames have them where another call of
    the run has other ids.
    """

    answer: Answer
    agent: str
    request_id: RequestId
    conversation_id: str | None
    progress: RequestId | None = None
    level: str | None = None
    elicits: bool = False
    event_ids: bytes | None = None
    state: str | None = None
    task: str | None = None
    with_placeholders: bool = False

    def shared(self) -> CallFacts:
        """Return what this call has in common with others of its run: placeholders are for the rest."""
        return replace(
            self,
            request_id=0,
            progress=None if self.progress is None else 0,
            event_ids=None if self.event_ids is None else b"",
            state=None if self.state is None else "",
            with_placeholders=True,
        )

    def filling(self) -> Filling:
        """Return what this call has in the place of the placeholders."""
        values = {REQUEST_ID: _encoder.encode(self.request_id)}
        if self.progress is not None:
            values[PROGRESS_TOKEN] = _encoder.encode(self.progress)
        if self.event_ids is not None:
            values[EVENT_IDS] = self.event_ids
        if self.state is not None:
            values[REQUEST_STATE] = _encoder.encode(self.state)
        return filling_of(values)


class CallFold(Fold):
    """One answer as the response to a call. `result` is set once it has ended."""

    def __init__(self, facts: CallFacts) -> None:
        stays = facts.elicits and facts.state is None
        self.ends_at = CLIENT_TOOLS if stays else CLIENT_TOOLS | ELICITED
        self.result: dict[str, Any] | None = None
        self._facts = facts
        shared = facts.with_placeholders
        self._request_id = REQUEST_ID if shared else facts.request_id
        self._progress_token = PROGRESS_TOKEN if shared else facts.progress
        self._event_ids = EVENT_IDS.mark if shared else facts.event_ids or b""
        self._state = REQUEST_STATE if shared else facts.state
        self._frames = 0
        self._chars = 0
        self._level = len(LEVELS) if facts.level is None else LEVELS.index(facts.level)
        self._messages: list[str] = []
        self._blocks: list[dict[str, Any]] = []
        self._files: set[str] = set()
        self._thoughts: dict[int, str] = {}
        self._asked_at: dict[str, int] = {}
        """The host's id of a call -> the sequence of its latest request."""
        self._meta = None if facts.task is None else {RELATED_TASK: {"taskId": facts.task}}

    # -- frames ---------------------------------------------------------------------------------------------

    def begin(self) -> list[bytes]:
        """Give a client of a session an id to continue after, before there is anything to say."""
        if self._facts.event_ids is None:
            return []
        self._frames += 1
        return [b"id: %s\nretry: %d\ndata: \n\n" % (self._id(), RETRY_MILLISECONDS)]

    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        """Write an event."""
        match event:
            case TextAdded(text=text):
                return self._progress(text)
            case MessageEnded(incomplete=False, text=text):
                if text or event.message is None:
                    self._messages.append(text)
                    self._blocks.append(text_block(text))
            case ContentAdded() | FileMade():
                self._add_file(shown_file(event))
            case ReasoningAdded(key=key, text=text):
                self._thoughts[key] = self._thoughts.get(key, "") + text
            case Asked():
                return self._ask(sequence, event)
            case _:
                pass
        return self._log_event(event)

    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        """Write the response."""
        match ending:
            case Completed():
                self.result = self._called("completed", usage)
            case Failed():
                self.result = self._failed(ending, usage)
            case Waiting(asked=asked) if self._forms(asked):
                forms = {
                    form_id(self._facts.answer.run_id, one, self._asked_at[one.request.call_id]): {
                        "method": "elicitation/create",
                        "params": form_of(one),
                    }
                    for one in asked
                }
                self.result = {
                    "resultType": "input_required",
                    "inputRequests": forms,
                    "requestState": self._state,
                }
            case Waiting(asked=asked):
                for one in asked:
                    text = where_to_decide(self._facts.answer.run_id, one.request)
                    self._blocks.append(text_block(text))
                self.result = self._called("waiting", usage)
        return self._frame({"id": self._request_id, "result": self._on_wire(self.result)})

    def refuse(self, problem: Problem) -> list[bytes]:
        """Say why the stream ends early. Without an id: a client may continue it."""
        error = {"jsonrpc": "2.0", "id": self._request_id, "error": error_object(problem)}
        return [b"data: %s\n\n" % _encoder.encode(error)]

    def body(self) -> bytes:
        """Return the response as JSON. RuntimeError before the end."""
        if self.result is None:
            raise RuntimeError("the answer has not ended")
        message = {"jsonrpc": "2.0", "id": self._request_id, "result": self._on_wire(self.result)}
        return _encoder.encode(message)

    def _on_wire(self, result: dict[str, Any]) -> dict[str, Any]:
        if self._meta is not None:
            result = result | {"_meta": self._meta}
        return result if self._facts.state is None else {"resultType": "complete"} | result

    def _frame(self, message: dict[str, Any]) -> list[bytes]:
        data = _encoder.encode({"jsonrpc": "2.0", **message})
        if self._facts.event_ids is None:
            return [b"data: %s\n\n" % data]
        self._frames += 1
        return [b"id: %s\ndata: %s\n\n" % (self._id(), data)]

    def _id(self) -> bytes:
        return b"%b.%d" % (self._event_ids, self._frames)

    # -- on the way -----------------------------------------------------------------------------------------

    def _progress(self, text: str) -> list[bytes]:
        self._chars += len(text)
        if self._facts.progress is None or not text:
            return []
        params = {"progressToken": self._progress_token, "progress": self._chars, "message": text}
        return self._notify("notifications/progress", params)

    def _log_event(self, event: RunEvent) -> list[bytes]:
        noted = self._note_of(event)
        return [] if noted is None else self._log(*noted)

    def _note_of(self, event: RunEvent) -> tuple[str, dict[str, Any]] | None:
        """Return level and data of the log message for an event, None if it has none."""
        noted: tuple[str, dict[str, Any]] | None = None
        match event:
            case MessageEnded(incomplete=True, text=text):
                noted = "notice", {"message_dropped": text}
            case ReasoningEnded(key=key):
                noted = "debug", {"reasoning": self._thoughts.pop(key, "")}
            case ToolCalled(key=call, name=name, arguments=arguments):
                noted = "info", {"tool_called": name, "call": call, "arguments": arguments}
            case ToolReturned(key=call, name=name, error=None):
                noted = "info", {"tool_returned": name, "call": call, "result": event.result}
            case ToolReturned(key=call, name=name, error=error):
                noted = "warning", {"tool_failed": name, "call": call, "error": error}
            case ToolDropped(key=call, name=name):
                noted = "notice", {"tool_dropped": name, "call": call}
            case AttemptBegan(attempt=attempt, cause=cause):
                noted = "notice", {"attempt": attempt, "cause": cause}
            case ActionWanted(action=action):
                noted = "info", {"action_wanted": msgspec.to_builtins(action)}
            case _:
                pass
        return noted

    def _log(self, level: str, data: dict[str, Any]) -> list[bytes]:
        if LEVELS.index(level) < self._level:
            return []
        return self._notify(
            "notifications/message", {"level": level, "logger": self._facts.agent, "data": data}
        )

    def _notify(self, method: str, params: dict[str, Any]) -> list[bytes]:
        if self._meta is not None:
            params["_meta"] = self._meta
        return self._frame({"method": method, "params": params})

    def _ask(self, sequence: int, asked: Asked) -> list[bytes]:
        """Ask the user of a session, who answers while the call goes on; a stateless call ends for that."""
        self._asked_at[asked.request.call_id] = sequence
        facts = self._facts
        if not facts.elicits or facts.state is not None or asked.request.kind not in ELICITED:
            return []
        params = form_of(asked)
        if self._meta is not None:
            params["_meta"] = self._meta
        id_ = form_id(facts.answer.run_id, asked, sequence)
        return self._frame({"id": id_, "method": "elicitation/create", "params": params})

    def _forms(self, asked: tuple[Asked, ...]) -> bool:
        """Whether forms can ask all of this, in the response to a stateless call."""
        facts = self._facts
        if not facts.elicits or facts.state is None:
            return False
        return all(one.request.kind in ELICITED for one in asked)

    # -- the result -----------------------------------------------------------------------------------------

    def _called(self, status: str, usage: Usage | None, **more: Any) -> dict[str, Any]:
        facts = self._facts
        structured: dict[str, Any] = {
            "status": status,
            "messages": self._messages,
            "run_id": facts.answer.run_id,
            "conversation_id": facts.conversation_id,
            **more,
        }
        if usage is not None and (used := msgspec.to_builtins(usage)):
            structured["usage"] = used
        return {"content": self._blocks, "structuredContent": structured, "isError": False}

    def _failed(self, ending: Failed, usage: Usage | None) -> dict[str, Any]:
        status = "cancelled" if ending.code == "cancelled" else "failed"
        failure = tool_error(ending.code, ending.error, retryable=ending.retryable)
        self._blocks += failure["content"]
        return self._called(status, usage, **failure["structuredContent"]) | {"isError": True}

    def _add_file(self, file: ShownFile) -> None:
        if file.identity in self._files:
            return
        self._files.add(file.identity)
        self._blocks.append(_block(file))


def _block(file: ShownFile) -> dict[str, Any]:
    kind = file.mime_type
    if file.artifact_id is None and file.url.startswith("data:"):
        head, _, data = file.url.partition(",")
        if head.endswith(";base64"):
            for family in ("image", "audio"):
                if kind.startswith(f"{family}/"):
                    return {"type": family, "data": data, "mimeType": kind}
            inline = {"uri": f"file:///{file.name or 'file'}", "mimeType": kind, "blob": data}
            return {"type": "resource", "resource": inline}
    uri = file.url if file.artifact_id is None else artifact_uri(file.artifact_id)
    link: dict[str, Any] = {"type": "resource_link", "uri": uri, "name": file.name or "file"}
    if "*" not in kind:
        link["mimeType"] = kind
    if file.size_bytes is not None:
        link["size"] = file.size_bytes
    return link
