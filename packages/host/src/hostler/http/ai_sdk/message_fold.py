"""Fold an answer into the chunks of one assistant message.

A message has steps. A step ends once a text is complete or a tool has returned, and the next part begins
another: so `reset-step`, which takes back all parts of a step, retracts the text of a superseded attempt and
little else.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from hostler.domain.record import Record
from hostler.domain.run_events import (
    ActionWanted,
    Asked,
    Completed,
    ContentAdded,
    Failed,
    FileMade,
    MessageEnded,
    MessageRetracted,
    ReasoningAdded,
    ReasoningEnded,
    RunEvent,
    StateChanged,
    TextAdded,
    ToolCalled,
    ToolDropped,
    ToolReturned,
)
from hostler.http.ai_sdk.dialect import DONE, chunk, encode
from hostler.http.dialects.answers import call_id_of
from hostler.http.dialects.files import ShownFile, shown_file
from hostler.http.dialects.fold import Answer, Ending, Fold
from hostler.http.dialects.notices import where_to_decide
from hostler.http.problems import Problem
from hostler_protocol.content import Usage
from hostler_protocol.results import InteractionRequested

APPROVALS = frozenset({"approval", "budget"})
QUESTIONS = frozenset({"form", "confirmation", "choice"})
QUESTION_TOOL = "question"
"""The name of the tool part as which a question is shown; its output is `{values, action?}`."""
_FINISH = {"stop", "length", "content-filter", "tool-calls", "error", "other"}


class MessageFacts(Record):
    """What a message says besides its results. `client_tools`: the names of the tools of the caller.

    `message_id` is that of the assistant message; `goes_on`: the client has its beginning already.
    """

    answer: Answer
    message_id: str
    conversation_id: str | None
    client_tools: frozenset[str] = frozenset()
    goes_on: bool = False


@dataclass(slots=True)
class _Part:
    """A part of the current step: the chunks that say it again, and of a text its id and what it has."""

    chunks: list[bytes] = field(default_factory=list)
    text_id: str | None = None
    text: str = ""
    ended: bool = False
    kind: Literal["text", "reasoning"] = "text"

    def said_again(self) -> list[bytes]:
        if self.text_id is None:
            return self.chunks
        if not self.text:
            return []
        return [*self.start(), self.more(self.text), *([self.end()] if self.ended else [])]

    def start(self) -> list[bytes]:
        return [chunk(f"{self.kind}-start", id=self.text_id)]

    def more(self, text: str) -> bytes:
        return chunk(f"{self.kind}-delta", id=self.text_id, delta=text)

    def end(self) -> bytes:
        return chunk(f"{self.kind}-end", id=self.text_id)


class MessageFold(Fold):
    """One answer as chunks of an assistant message."""

    ends_at = frozenset({"client_tool", "in_doubt", *APPROVALS, *QUESTIONS})
    retracts = True

    def __init__(self, facts: MessageFacts) -> None:
        self._facts = facts
        self._step: list[_Part] | None = None
        self._full = False
        """Whether the next part begins a new step."""
        self._texts: dict[int, _Part] = {}
        """Key of a message -> its text part, if it has one that is not over."""
        self._thoughts: dict[int, _Part] = {}
        """Key of a message -> its part with reasoning, if it has one that is not over."""
        self._numbers = itertools.count(1)
        self._tools: dict[str, ToolCalled] = {}
        self._parts: dict[str, _Part] = {}
        """Key of a call -> its part."""
        self._at_client: set[str] = set()
        """Keys of calls that were announced as the client's."""
        self._files: set[str] = set()

    def begin(self) -> list[bytes]:
        """Begin the message, or go on with it."""
        facts = self._facts
        metadata = {"runId": facts.answer.run_id, "conversationId": facts.conversation_id}
        return [chunk("start", messageId=facts.message_id, messageMetadata=metadata)]

    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        """Return the chunks of an event."""
        match event:
            case TextAdded(key=key, text=text):
                chunks = self._text(key, text)
            case ReasoningAdded(key=key, text=text):
                chunks = self._reasoned(key, text)
            case ReasoningEnded(key=key):
                chunks = self._end_reasoning(key)
            case MessageRetracted(key=key, text=text, reasoning=reasoning):
                chunks = self._retract(key, text, reasoning)
            case MessageEnded(key=key):
                chunks = self._end_text(key)
            case ToolCalled():
                chunks = self._called(event)
            case ToolReturned(key=key, result=result, error=error):
                chunks = self._returned(key, result, error)
            case ToolDropped(key=key):
                chunks = self._returned(key, None, "the attempt that made this call was superseded")
            case Asked():
                chunks = self._asked(event)
            case _:
                chunks = self._aside(event)
        return chunks

    def _aside(self, event: RunEvent) -> list[bytes]:
        """Return the chunks of what is neither text nor a call."""
        match event:
            case ContentAdded() | FileMade():
                return self._file(shown_file(event))
            case StateChanged(update=update):
                data = {"scope": update.scope, "key": update.key, "value": update.value}
                return [chunk("data-state", id=f"{update.scope}/{update.key}", data=data, transient=True)]
            case ActionWanted(action=action):
                return [chunk("data-action", data=msgspec.to_builtins(action), transient=True)]
            case _:
                return []

    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        """End the message for now: complete, failed, or waiting for its client."""
        chunks = [found for key in list(self._thoughts) for found in self._end_reasoning(key)]
        chunks += [found for key in list(self._texts) for found in self._end_text(key)]
        if self._step is not None:
            chunks.append(chunk("finish-step"))
        metadata = {
            "runId": self._facts.answer.run_id,
            "usage": None if usage is None else msgspec.to_builtins(usage),
        }
        match ending:
            case Completed(finish_reason=reason):
                known = reason if reason in _FINISH else "other"
                chunks.append(chunk("finish", finishReason=known, messageMetadata=metadata))
            case Failed(code="cancelled", error=error):
                chunks.append(chunk("abort", reason=error))
            case Failed(code=code, error=error):
                chunks.append(chunk("error", errorText=f"{code}: {error}"))
            case _:
                chunks.append(chunk("finish", finishReason="tool-calls", messageMetadata=metadata))
        return [*chunks, DONE]

    def refuse(self, problem: Problem) -> list[bytes]:
        """Say why the stream ends."""
        return [chunk("error", errorText=problem.detail), DONE]

    # -- parts ------------------------------------------------------------------------------------------

    def _new_part(self, part: _Part) -> list[bytes]:
        """Add a part to the step, or to a new one; return what precedes it."""
        chunks: list[bytes] = []
        if self._step is None or self._full:
            if self._step is not None:
                chunks.append(chunk("finish-step"))
            chunks.append(chunk("start-step"))
            self._step, self._full = [], False
        self._step.append(part)
        return chunks

    def _text(self, key: int, text: str) -> list[bytes]:
        part = self._texts.get(key)
        chunks: list[bytes] = []
        if part is None:
            part = self._texts[key] = _Part(text_id=self._part_id("text", key))
            chunks = [*self._new_part(part), *part.start()]
        part.text += text
        return [*chunks, part.more(text)]

    def _reasoned(self, key: int, text: str) -> list[bytes]:
        chunks: list[bytes] = []
        part = self._thoughts.get(key)
        if part is None:
            part = self._thoughts[key] = _Part(text_id=self._part_id("reasoning", key), kind="reasoning")
            chunks = [*self._new_part(part), *part.start()]
        part.text += text
        return [*chunks, part.more(text)]

    def _part_id(self, kind: str, key: int) -> str:
        return f"{kind}-{self._facts.answer.after}-{key}-{next(self._numbers)}"

    def _end_text(self, key: int) -> list[bytes]:
        part = self._texts.pop(key, None)
        if part is None:
            return []
        part.ended = self._full = True
        return [part.end()] if part.text else []

    def _end_reasoning(self, key: int) -> list[bytes]:
        part = self._thoughts.pop(key, None)
        if part is None:
            return []
        part.ended = True
        return [part.end()]

    def _retract(self, key: int, text: str, reasoning: str) -> list[bytes]:
        """Take back what a superseded attempt said of a message, if that is in the step; else it stays."""
        step = self._step or []
        part, thought = self._texts.get(key), self._thoughts.get(key)
        if part is not None and not _holds(step, part):
            chunks = self._end_text(key)
            return [*chunks, *self._text(key, text)] if text else chunks
        has_thought = thought is not None and _holds(step, thought)
        if part is None and not has_thought:
            return []
        if part is not None:
            part.text = text
            if not text:
                del self._texts[key]
                _drop(step, part)
        if thought is not None and has_thought:
            thought.text = reasoning
            if not reasoning:
                del self._thoughts[key]
                _drop(step, thought)
        return [chunk("reset-step"), *(again for one in step for again in one.said_again())]

    def _file(self, file: ShownFile) -> list[bytes]:
        """Show a file once, however often the results name it."""
        if file.identity in self._files:
            return []
        self._files.add(file.identity)
        part = _Part([chunk("file", url=file.url, mediaType=file.mime_type, filename=file.name)])
        return [*self._new_part(part), *part.chunks]

    # -- calls ------------------------------------------------------------------------------------------

    def _called(self, event: ToolCalled) -> list[bytes]:
        self._tools[event.key] = event
        if event.name in self._facts.client_tools:  # it is the client's turn once the host asks it
            self._at_client.add(event.key)
            said = chunk("tool-input-start", toolCallId=event.key, toolName=event.name)
        else:
            said = self._input(event, dynamic=True, providerExecuted=True)
        return self._call_part(event.key, said)

    def _call_part(self, key: str, said: bytes) -> list[bytes]:
        part = self._parts[key] = _Part([said])
        return [*self._new_part(part), said]

    def _returned(self, key: str, result: Any, error: Any) -> list[bytes]:
        if key not in self._tools and not self._facts.goes_on:
            return []  # its call is in another message
        self._full = True
        if error is not None:
            return [chunk("tool-output-error", toolCallId=key, errorText=_text_of(error))]
        return [encode({"type": "tool-output-available", "toolCallId": key, "output": result})]

    def _asked(self, event: Asked) -> list[bytes]:
        request = event.request
        called = None if event.key is None else self._tools.get(event.key)
        if request.kind in QUESTIONS or called is None:
            return self._question(request)
        about = {"hostler": self._about(request)}
        if request.kind == "client_tool":
            if called.key in self._at_client:
                return self._said(called.key, self._input(called, toolMetadata=about))
            again = self._input(called, dynamic=True, providerExecuted=False, toolMetadata=about)
            return self._said(called.key, again)
        if request.kind in APPROVALS:
            return self._said(
                called.key,
                chunk(
                    "tool-approval-request",
                    approvalId=call_id_of(self._facts.answer, request.call_id),
                    toolCallId=called.key,
                    reason=request.description or request.title or None,
                    approvalDescriptor=about["hostler"],
                ),
            )
        doubt = chunk("data-in-doubt", id=request.call_id, data=about["hostler"])
        return [doubt, *self._note(where_to_decide(self._facts.answer.run_id, request))]

    def _note(self, text: str) -> list[bytes]:
        """Say something that is the host's, where the interface has no word for it."""
        part = _Part(text_id=self._part_id("note", 0), text=text, ended=True)
        return [*self._new_part(part), *part.said_again()]

    def _question(self, request: InteractionRequested) -> list[bytes]:
        """Show a question as a call of a tool that the client answers."""
        asked = {
            "kind": request.kind,
            "title": request.title,
            "description": request.description,
            "fields": msgspec.to_builtins(request.fields),
            "actions": msgspec.to_builtins(request.actions),
            "text": request.fallback_text,
        }
        key = call_id_of(self._facts.answer, request.call_id)
        called = self._tools[key] = ToolCalled(key, QUESTION_TOOL, asked)
        return self._call_part(key, self._input(called, toolMetadata={"hostler": self._about(request)}))

    def _about(self, request: InteractionRequested) -> dict[str, Any]:
        """Return what a decision sends back: the call, and what of it was shown."""
        return {
            "callId": call_id_of(self._facts.answer, request.call_id),
            "kind": request.kind,
            "argsHash": request.args_hash,
            "expiresAt": request.expires_at,
        }

    def _input(self, called: ToolCalled, **fields: Any) -> bytes:
        known = {"toolCallId": called.key, "toolName": called.name, **fields}
        body = {"type": "tool-input-available", **known, "input": called.arguments}
        return encode(body)

    def _said(self, key: str, said: bytes) -> list[bytes]:
        """Say more of a call; a retraction of its step says it again."""
        self._parts[key].chunks.append(said)
        return [said]


def _holds(step: list[_Part], part: _Part) -> bool:
    """Whether this very part is in a step: equal ones may be in it, too."""
    return any(one is part for one in step)


def _drop(step: list[_Part], part: _Part) -> None:
    step[:] = [one for one in step if one is not part]


def _text_of(error: Any) -> str:
    """Return an error as a sentence."""
    if isinstance(error, str):
        return error
    if isinstance(error, dict) and isinstance(message := error.get("message"), str):
        return message
    return msgspec.json.encode(error, enc_hook=str).decode()
