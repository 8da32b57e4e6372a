"""An answer as Chat Completions says it: a stream of chunks, or one whole completion.

The one message of an answer is all messages of the agent, with blank lines between them. In a stream, text of
a superseded attempt cannot be taken back: its message is marked as `incomplete`, by the extension `hostler`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from hostler.domain.run_events import (
    Asked,
    Completed,
    ContentAdded,
    Failed,
    FileMade,
    MessageEnded,
    MessageStarted,
    ReasoningAdded,
    RunEvent,
    TextAdded,
)
from hostler.http.dialects.answers import answer_id, call_id_of
from hostler.http.dialects.fold import CLIENT_TOOLS, Answer, Ending, Fold, Waiting
from hostler.http.dialects.notices import where_to_decide
from hostler.http.openai import chat_types as types
from hostler.http.openai.chat_files import Files, Link
from hostler.http.openai.chat_text import BETWEEN, Said, Turns, Withdrawn
from hostler.http.openai.dialect import ErrorAnswer, ErrorBody, error_of
from hostler.http.problems import Problem
from hostler_protocol.content import Usage

PREFIX = "chatcmpl"
"""Of the ids of answers."""
PEOPLE = frozenset({"approval", "in_doubt", "budget", "form", "confirmation", "choice"})
"""Kinds of requests that people decide."""
_REASONS = frozenset({"stop", "length", "content_filter"})
_encoder = msgspec.json.Encoder()


class ChatFacts(NamedTuple):
    """What an answer says of its run. `base`: the address of this host, for links to files."""

    answer: Answer
    model: str
    created: int
    base: str

    @property
    def id(self) -> str:
        """The id of the answer."""
        return answer_id(PREFIX, self.answer)


def usage_of(usage: Usage | None) -> types.ChatUsage | None:
    """Return what was used, None if that is not known. A part that is unknown alone is 0."""
    if usage is None:
        return None
    into, out, total = usage.input_tokens, usage.output_tokens, usage.total_tokens
    if into is None and out is None and total is None:
        return None
    into = into if into is not None else max(0, (total or 0) - (out or 0))
    out = out if out is not None else max(0, (total or 0) - into)
    said = types.ChatUsage(
        prompt_tokens=into, completion_tokens=out, total_tokens=into + out if total is None else total
    )
    if usage.cached_tokens is not None:
        said.prompt_tokens_details = types.TokenDetails(cached_tokens=usage.cached_tokens)
    if usage.reasoning_tokens is not None:
        said.completion_tokens_details = types.TokenDetails(reasoning_tokens=usage.reasoning_tokens)
    return said


def failure_of(failed: Failed) -> ErrorAnswer:
    """Return the error of a run that has failed, was cancelled or out of time."""
    return ErrorAnswer(error=ErrorBody(message=failed.error, type="server_error", code=failed.code))


class ChatStream(Fold):
    """An answer as chunks. `usage`: a last one says what was used."""

    def __init__(self, facts: ChatFacts, *, usage: bool, waits: bool = True) -> None:
        """`waits`: the stream goes on while people decide; else it ends there."""
        self.ends_at = CLIENT_TOOLS if waits else CLIENT_TOOLS | PEOPLE
        self._facts = facts
        self._usage = usage
        self._turns = Turns()
        self._files = Files(facts.base)
        self._frames = 0
        self._calls: dict[str, int] = {}
        """Id of a call that the client shall make -> its index."""
        self._noted: set[str] = set()
        """What was said of where to decide: a call that is asked again may be in doubt by now."""
        self._last: int | None = None
        """The message that the text so far ends with; None: it ends with a note."""
        self._length = 0
        """Characters so far."""

    def begin(self) -> list[bytes]:
        """Begin the message."""
        return [self._chunk(types.Delta(role="assistant", content=""))]

    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        """Say text, calls of the client's tools, notes and files."""
        match event:
            case MessageStarted() | TextAdded() | MessageEnded():
                return self._say(self._turns.take(event))
            case ReasoningAdded(text=text):
                return [self._chunk(types.Delta(reasoning_content=text))]
            case Asked():
                return self._ask(event)
            case ContentAdded() | FileMade():
                link = self._files.link(event)
                return [] if link is None else self._note(link.markdown, link)
        return []

    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        """Say why it ends, and what was used."""
        frames = self._say(self._turns.rest())
        if isinstance(ending, Failed):
            return [*frames, self._frame(_encoder.encode(failure_of(ending))), self._frame(b"[DONE]")]
        frames.append(self._chunk(types.Delta(), finish_reason=finish_reason(ending, bool(self._calls))))
        if self._usage:
            chunk = self._new([])
            chunk.usage = usage_of(usage)
            frames.append(self._frame(_encoder.encode(chunk)))
        return [*frames, self._frame(b"[DONE]")]

    def refuse(self, problem: Problem) -> list[bytes]:
        """Say why the stream breaks off."""
        return [b"data: %s\n\n" % _encoder.encode(ErrorAnswer(error=error_of(problem)))]

    def _ask(self, event: Asked) -> list[bytes]:
        request = event.request
        if request.kind in CLIENT_TOOLS:
            return self._call(event)
        note = where_to_decide(self._facts.answer.run_id, request)
        if event.again and note in self._noted:
            return []
        self._noted.add(note)
        return self._note(note)

    def _say(self, turns: Iterator[Said | Withdrawn]) -> list[bytes]:
        frames: list[bytes] = []
        for one in turns:
            if isinstance(one, Withdrawn):
                frames.append(self._chunk(types.Delta(), shown=types.Shown(message=one.key, incomplete=True)))
                continue
            if one.key != self._last:
                frames += self._separate()
                self._last = one.key
            frames.append(self._text(types.Delta(content=one.text), types.Shown(message=one.key)))
        return frames

    def _note(self, text: str, link: Link | None = None) -> list[bytes]:
        frames = self._separate()
        self._last = None
        annotations = None if link is None else [annotation(link, self._length, len(text))]
        return [*frames, self._text(types.Delta(content=text, annotations=annotations))]

    def _separate(self) -> list[bytes]:
        return [self._text(types.Delta(content=BETWEEN))] if self._length else []

    def _text(self, delta: types.Delta, shown: types.Shown | None = None) -> bytes:
        self._length += len(delta.content or "")
        return self._chunk(delta, shown=shown)

    def _call(self, event: Asked) -> list[bytes]:
        call_id = event.request.call_id
        if call_id in self._calls:
            return []
        self._calls[call_id] = index = len(self._calls)
        call = call_of(event, self._facts.answer)
        call.index = index
        return [self._chunk(types.Delta(tool_calls=[call]))]

    def _new(self, choices: list[types.ChunkChoice]) -> types.Chunk:
        facts = self._facts
        chunk = types.Chunk(id=facts.id, created=facts.created, model=facts.model, choices=choices)
        if self._usage:
            chunk.usage = None
        return chunk

    def _chunk(
        self, delta: types.Delta, *, finish_reason: str | None = None, shown: types.Shown | None = None
    ) -> bytes:
        chunk = self._new([types.ChunkChoice(delta=delta, finish_reason=finish_reason)])
        if shown is not None:
            chunk.hostler = shown
        return self._frame(_encoder.encode(chunk))

    def _frame(self, data: bytes) -> bytes:
        self._frames += 1
        return b"id: %d\ndata: %s\n\n" % (self._frames, data)


class ChatWhole(Fold):
    """An answer as one completion: `completion`, or `failed`, once it has ended."""

    def __init__(self, facts: ChatFacts, *, waits: bool = False) -> None:
        """`waits`: it is complete once people have decided; else it ends where they are asked."""
        self.ends_at = CLIENT_TOOLS if waits else CLIENT_TOOLS | PEOPLE
        self.completion: types.Completion | None = None
        self.failed: Failed | None = None
        self._facts = facts
        self._files = Files(facts.base)
        self._texts: dict[int, str] = {}
        self._reasoning: list[str] = []
        self._parts: list[int | str | Link] = []
        """In order: keys of messages, notes, files."""
        self._incomplete: set[int] = set()
        self._complete: list[int] = []
        self._calls: dict[str, types.SaidCall] = {}
        self._noted: dict[str, int] = {}

    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        """Collect text, calls of the client's tools, notes and files."""
        match event:
            case MessageStarted(key=key):
                self._texts[key] = ""
                self._parts.append(key)
            case TextAdded(key=key, text=text):
                self._texts[key] += text
            case MessageEnded(key=key, incomplete=incomplete):
                if incomplete:
                    self._incomplete.add(key)
                else:
                    self._complete.append(key)
            case ReasoningAdded(text=text):
                self._reasoning.append(text)
            case Asked(request=request) if request.kind in CLIENT_TOOLS:
                self._calls[request.call_id] = call_of(event, self._facts.answer)
            case Asked(request=request):
                note = where_to_decide(self._facts.answer.run_id, request)
                if (place := self._noted.get(request.call_id)) is not None:
                    self._parts[place] = note
                else:
                    self._noted[request.call_id] = len(self._parts)
                    self._parts.append(note)
            case ContentAdded() | FileMade():
                if (link := self._files.link(event)) is not None:
                    self._parts.append(link)
        return []

    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        """Build the completion."""
        if isinstance(ending, Failed):
            self.failed = ending
            return []
        message = self._message()
        facts = self._facts
        self.completion = types.Completion(
            id=facts.id,
            created=facts.created,
            model=facts.model,
            choices=[types.Choice(message=message, finish_reason=finish_reason(ending, bool(self._calls)))],
            usage=usage_of(usage),
            hostler=types.RunFacts(
                run_id=facts.answer.run_id, messages=[self._texts[key] for key in self._complete]
            ),
        )
        return []

    def _message(self) -> types.SaidMessage:
        content, annotations = "", []
        for part in self._parts:
            if isinstance(part, int):
                text = "" if part in self._incomplete else self._texts[part]
            else:
                text = part.markdown if isinstance(part, Link) else part
            if not text:
                continue
            content += BETWEEN if content else ""
            if isinstance(part, Link):
                annotations.append(annotation(part, len(content), len(text)))
            content += text
        message = types.SaidMessage(content=content if content or not self._calls else None)
        if self._reasoning:
            message.reasoning_content = "".join(self._reasoning)
        if annotations:
            message.annotations = annotations
        if self._calls:
            message.tool_calls = list(self._calls.values())
        return message


def finish_reason(ending: Ending, calls: bool) -> str:
    """Return why an answer ends, in the interface's words."""
    if isinstance(ending, Completed):
        return ending.finish_reason if ending.finish_reason in _REASONS else "stop"
    return "tool_calls" if isinstance(ending, Waiting) and calls else "stop"


def call_of(event: Asked, answer: Answer) -> types.SaidCall:
    """Return a call that the client shall make."""
    request = event.request
    function = types.SaidFunction(
        name=request.tool_name or "", arguments=json.dumps(request.arguments, ensure_ascii=False)
    )
    return types.SaidCall(id=call_id_of(answer, request.call_id), function=function)


def annotation(link: Link, start: int, length: int) -> types.Annotation:
    """Return where a file is named in the answer."""
    return types.Annotation(
        url_citation=types.UrlCitation(
            start_index=start, end_index=start + length, title=link.title, url=link.url
        )
    )
