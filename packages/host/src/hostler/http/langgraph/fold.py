"""A run as the stream of a LangGraph run: the state of its thread, what changed it, and tokens of messages.

A run of LangGraph is an answer: from a request to where the run waits for people or its client, or ends. The
number of a frame counts the events of all modes, so that a stream goes on after it in whatever modes it is
read. The state is the thread's messages; the agent is a graph of two nodes, `agent` and `tools`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.run_events import (
    ActionWanted,
    Completed,
    ContentAdded,
    Failed,
    FileMade,
    MessageEnded,
    MessageStarted,
    ReasoningAdded,
    RunEvent,
    StateChanged,
    TextAdded,
    ToolCalled,
    ToolDropped,
    ToolReturned,
)
from hostler.http.dialects.answers import answer_id, call_id_of
from hostler.http.dialects.files import shown_file
from hostler.http.dialects.fold import Answer, Ending, Fold, Waiting
from hostler.http.dialects.requests import ALL_REQUESTS
from hostler.http.langgraph import messages as wire
from hostler.http.langgraph.dialect import error_body
from hostler.http.langgraph.interrupts import interrupt_of
from hostler.http.problems import Problem
from hostler_protocol.content import Usage

RUN = "run"
"""Before the id of a run of LangGraph's."""
MODES = ("values", "updates", "messages-tuple", "custom", "events")
AGENT_NODE, TOOLS_NODE = "agent", "tools"
_HIDDEN_KEYS = "external."
"""Keys of state that begin so are notes of the host and of services, not for clients."""
_INCOMPLETE = {"hostler": {"incomplete": True}}
_encode = msgspec.json.Encoder(enc_hook=str).encode


@dataclass(slots=True)
class Facts:
    """What an answer is folded with besides results.

    `messages`: those of the thread up to the one that the run answers, read once the run has begun. `later`:
    those that came into the thread after the message that it answers, and are not its own.
    """

    thread_id: str
    agent: str
    modes: Collection[str] = ("values",)
    messages: list[dict[str, Any]] = field(default_factory=list)
    later: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    """A message under way."""

    message_id: str
    blocks: list[dict[str, Any]] = field(default_factory=list)
    reasoning: str = ""


class RunFold(Fold):
    """Writes one answer as server-sent events of a LangGraph server."""

    ends_at = ALL_REQUESTS

    def __init__(self, answer: Answer, facts: Facts) -> None:
        self.ending: Ending | None = None
        self.interrupts: list[dict[str, Any]] = []
        self.error: dict[str, Any] | None = None
        self._answer = answer
        self._facts = facts
        self._run_id = answer_id(RUN, answer)
        self._number = 0
        self._earlier: list[bytes] | None = None
        """Messages of the thread before those of the run, encoded; None before they are needed."""
        self._own: dict[str, bytes] = {}
        """Messages of the run, by id, encoded."""
        self._begun = False
        self._open: dict[int, _Open] = {}
        self._last: dict[str, Any] | None = None
        """The newest message of the agent."""
        self._wanted = frozenset(facts.modes)
        self._place = _encode(
            {
                "langgraph_node": AGENT_NODE,
                "langgraph_step": 1,
                "run_id": self._run_id,
                "thread_id": facts.thread_id,
                "graph_id": facts.agent,
                "assistant_id": facts.agent,
            }
        )

    # -- the state ----------------------------------------------------------------------------------------

    @property
    def values(self) -> bytes:
        """The state of the thread as JSON, with what it waits for."""
        if self._earlier is None:
            self._earlier = [_encode(one) for one in self._facts.messages]
        later = map(_encode, self._facts.later)
        body = b'{"messages":[' + b",".join([*self._earlier, *self._own.values(), *later]) + b"]"
        if self.interrupts:
            body += b',"__interrupt__":' + _encode(self.interrupts)
        return body + b"}"

    # -- the frames ---------------------------------------------------------------------------------------

    def begin(self) -> list[bytes]:
        """Name the run."""
        return [self._always("metadata", _encode({"run_id": self._run_id, "attempt": 1}))]

    def before(self, sequence: int, event: RunEvent) -> None:
        """Keep what an earlier answer of the run has added to the state."""
        for _, message in self._added(event):
            self._own[message["id"]] = _encode(message)

    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        """Write an event."""
        frames = self._state_shown()
        match event:
            case TextAdded(key=key, text=text):
                frames += self._token(self._message_id(key), text)
            case ReasoningAdded(key=key, text=text):
                self._message(key).reasoning += text
                frames += self._token(self._message_id(key), "", {"reasoning_content": text})
            case MessageEnded(key=key, incomplete=True):
                frames.append(self._chunk(self._message(key).message_id, "", response_metadata=_INCOMPLETE))
                self._open.pop(key)
            case StateChanged() | ActionWanted():
                frames.append(self._custom(event))
            case _:
                if isinstance(event, FileMade):
                    frames.append(self._custom(event))
                for node, message in self._added(event):
                    frames += self._grown(node, message, streamed=isinstance(event, MessageEnded))
        return frames

    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        """Say how the answer ended."""
        self.ending = ending
        frames = self._state_shown()
        match ending:
            case Waiting(asked=asked):
                self.interrupts = [interrupt_of(self._answer.run_id, one) for one in asked]
                frames.append(self._frame("updates", _encode({"__interrupt__": self.interrupts})))
                frames.append(self._state())
            case Completed():
                frames += self._used(usage)
                frames.append(self._lifecycle("on_chain_end"))
            case Failed(code=code, error=error):
                frames += self._used(usage)
                if code != "cancelled":  # a stream of a run that was stopped just ends
                    self.error = {"error": code, "message": error}
                    frames.append(self._always("error", _encode(self.error)))
        return frames

    def refuse(self, problem: Problem) -> list[bytes]:
        """Say why the stream ends early. Without an id: the run goes on, and a client may join it."""
        body = error_body(problem)
        said = {"error": body["code"], "message": body["detail"]}
        return [b"event: error\ndata: %b\n\n" % _encode(said)]

    def _state_shown(self) -> list[bytes]:
        """Tell the state where the answer begins, before anything else of it."""
        if self._begun:
            return []
        self._begun = True
        return [self._state(), self._lifecycle("on_chain_start")]

    def _state(self) -> bytes:
        return self._frame("values", self.values) if "values" in self._wanted else self._skipped()

    def _always(self, event: str, data: bytes) -> bytes:
        self._number += 1
        return b"event: %b\ndata: %b\nid: %d\n\n" % (event.encode(), data, self._number)

    def _frame(self, mode: str, data: bytes, event: str | None = None) -> bytes:
        """Return a frame of a mode; nothing if the mode is not wanted, but its number is taken."""
        if mode not in self._wanted:
            self._number += 1
            return b""
        return self._always(event or mode, data)

    def _skipped(self) -> bytes:
        self._number += 1
        return b""

    # -- what is added to the state -----------------------------------------------------------------------

    def _message(self, key: int) -> _Open:
        if key not in self._open:
            name = f"{answer_id('msg', Answer(self._answer.run_id))}_{key}"
            self._open[key] = _Open(name)
        return self._open[key]

    def _message_id(self, key: int) -> str:
        return self._message(key).message_id

    def _added(self, event: RunEvent) -> list[tuple[str, dict[str, Any]]]:
        """Return the messages that an event adds to the state, each with its node."""
        run = Answer(self._answer.run_id)
        match event:
            case MessageStarted(key=key):
                self._message(key)
            case ContentAdded(key=key):
                self._message(key).blocks.append(wire.file_block(event))
            case MessageEnded(key=key, incomplete=True):
                self._open.pop(key, None)
            case MessageEnded(key=key, text=text):
                return [(AGENT_NODE, self._complete(self._message(key), key, text))]
            case FileMade(file=file):
                name = f"file_{self._answer.run_id}_{file.artifact_id or file.name}"
                return [(AGENT_NODE, wire.ai(name, [wire.file_block(event)]))]
            case ToolCalled(key=key, name=name, arguments=arguments):
                call = {
                    "name": name,
                    "args": arguments or {},
                    "id": call_id_of(run, key),
                    "type": "tool_call",
                }
                return [(AGENT_NODE, wire.ai(f"{call_id_of(run, key)}_call", "", tool_calls=[call]))]
            case ToolReturned(key=key, name=name, result=result, error=error):
                text = _text_of(result if error is None else error)
                return [(TOOLS_NODE, self._returned(call_id_of(run, key), name, text, error is not None))]
            case ToolDropped(key=key, name=name):
                text = "no attempt of the run made this call to its end"
                return [(TOOLS_NODE, self._returned(call_id_of(run, key), name, text, failed=True))]
        return []

    def _complete(self, message: _Open, key: int, text: str) -> dict[str, Any]:
        self._open.pop(key)
        content: str | list[dict[str, Any]] = text
        if message.blocks:
            content = [*([{"type": "text", "text": text}] if text else []), *message.blocks]
        complete = wire.ai(message.message_id, content)
        if message.reasoning:
            complete["additional_kwargs"] = {"reasoning_content": message.reasoning}
        return complete

    @staticmethod
    def _returned(call_id: str, name: str, text: str, failed: bool) -> dict[str, Any]:
        return wire.tool(f"{call_id}_result", call_id, name, text, failed=failed)

    # -- how it is told -----------------------------------------------------------------------------------

    def _grown(self, node: str, message: dict[str, Any], *, streamed: bool) -> list[bytes]:
        """Return the frames of a message that is complete. `streamed`: its text was told as it came."""
        encoded = _encode(message)
        self._own[message["id"]] = encoded
        if message["type"] == "ai":
            self._last = message
        frames = [
            self._skipped() if streamed and isinstance(message["content"], str) else self._told(encoded),
            self._event_of(node, message, encoded),
            self._frame("updates", b'{"%b":{"messages":[%b]}}' % (node.encode(), encoded)),
        ]
        return [*frames, self._state()]

    def _told(self, encoded: bytes) -> bytes:
        """Return a message as a piece of the stream of tokens: one that did not come as text."""
        return self._frame("messages-tuple", b"[%b,%b]" % (encoded, self._place), "messages")

    def _token(self, message_id: str, text: str, kwargs: dict[str, Any] | None = None) -> list[bytes]:
        chunk = self._chunk(message_id, text, additional_kwargs=kwargs or {})
        if "events" not in self._wanted:
            return [chunk, self._skipped()]
        data = {"chunk": {"content": text, "type": "AIMessageChunk", "id": message_id}}
        return [chunk, self._lifecycle("on_chat_model_stream", data)]

    def _chunk(self, message_id: str, text: str, **fields: Any) -> bytes:
        if "messages-tuple" not in self._wanted:
            return self._skipped()
        chunk = {
            "content": text,
            "additional_kwargs": {},
            "response_metadata": {},
            "type": "AIMessageChunk",
            "name": None,
            "id": message_id,
            "tool_calls": [],
            "invalid_tool_calls": [],
            "usage_metadata": None,
            "tool_call_chunks": [],
            **fields,
        }
        return self._told(_encode(chunk))

    def _event_of(self, node: str, message: dict[str, Any], encoded: bytes) -> bytes:
        if "events" not in self._wanted:
            return self._skipped()
        output = {"output": msgspec.Raw(encoded)}
        if node == TOOLS_NODE:
            return self._lifecycle("on_tool_end", output, name=message["name"])
        if calls := message["tool_calls"]:
            return self._lifecycle("on_tool_start", {"input": calls[0]["args"]}, name=calls[0]["name"])
        return self._lifecycle("on_chat_model_end", output)

    def _lifecycle(self, event: str, data: dict[str, Any] | None = None, name: str | None = None) -> bytes:
        if "events" not in self._wanted:
            return self._skipped()
        body = {
            "event": event,
            "name": name or self._facts.agent,
            "run_id": self._run_id,
            "tags": [],
            "metadata": msgspec.Raw(self._place),
            "data": data or {},
            "parent_ids": [],
        }
        return self._frame("events", _encode(body))

    def _custom(self, event: FileMade | StateChanged | ActionWanted) -> bytes:
        match event:
            case FileMade():
                file = shown_file(event)
                told = {
                    "type": "hostler.file",
                    "artifact_id": file.artifact_id,
                    "name": file.name,
                    "mime_type": file.mime_type,
                    "size_bytes": file.size_bytes,
                    "url": file.url,
                }
            case StateChanged(update=update):
                if update.key.startswith(_HIDDEN_KEYS):
                    return self._skipped()
                told = {
                    "type": "hostler.state",
                    "scope": update.scope,
                    "key": update.key,
                    "value": update.value,
                }
            case ActionWanted(action=action):
                told = {"type": "hostler.action", **msgspec.to_builtins(action)}
        return self._frame("custom", _encode(told))

    def _used(self, usage: Usage | None) -> list[bytes]:
        """Return the frames that tell what the run has used, with the newest message of the agent."""
        if self._last is None or usage is None:
            return [self._skipped(), self._state()]
        tokens = wire.usage_metadata(usage)
        last = {**self._last, "usage_metadata": tokens}
        self._own[last["id"]] = _encode(last)
        told = self._chunk(last["id"], "", usage_metadata=tokens)
        return [told, self._state()]


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else _encode(value).decode()
