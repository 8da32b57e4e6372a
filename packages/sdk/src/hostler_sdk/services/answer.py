"""From the items of a parser to the results of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hostler_sdk.results import (
    Result,
    completed,
    delta,
    log,
    message,
    paused,
    state_updated,
    tool_completed,
    tool_started,
)
from hostler_sdk.services.failures import ServiceFailure
from hostler_sdk.services.items import (
    Ask,
    Done,
    Item,
    Note,
    Session,
    Spent,
    Task,
    Text,
    ToolEnd,
    ToolStart,
    Whole,
)
from hostler_sdk.services.limits import MAX_NOTES, MAX_TEXT_BYTES
from hostler_sdk.services.think_tags import ThinkFilter
from hostler_sdk.types import Usage

STATE_PREFIX = "external."
STATE_OF_SERVICE = "service"
"""Of a pause's state: what the service's question brought with it."""


class Answer:
    """The answer of a service as it comes.

    `sessions` are the service's ids of the conversation by name; `task` is the id of its work. `keeps_state`:
    whether the run has a conversation whose state can hold the ids.
    """

    def __init__(self, title: str, *, remove_think: bool = False, keeps_state: bool = True) -> None:
        self._title = title
        self._remove_think = remove_think
        self._keeps_state = keeps_state
        self._filter = ThinkFilter() if remove_think else None
        self._pieces: list[str] = []
        self._size = 0
        self._whole: str | None = None
        self._noted: set[str] = set()
        self._usage: Usage | None = None
        self.sessions: dict[str, str] = {}
        self.task: str | None = None
        self.asked: Ask | None = None
        self.is_done = False

    def take(self, item: Item) -> Iterator[Result]:
        """Return the results of an item. Raises ServiceFailure if the answer gets too long."""
        match item:
            case Text(text=text):
                yield from self._text(text)
            case Whole(text=text):
                self._grow(len(text.encode(errors="replace")), whole=True)
                self._whole = text
                self._pieces.clear()
            case Session(name=name, value=value):
                yield from self._session(name, value)
            case Task(id=id_):
                self.task = id_
            case Spent(usage=usage):
                self._usage = usage
            case ToolStart():
                yield tool_started(item.id, item.name, item.parameters)
            case ToolEnd():
                yield tool_completed(item.id, item.name, item.result, item.error)
            case Note():
                yield from self._note(item)
            case Ask():
                self.asked = item
            case Done():
                self.is_done = True

    def end(self, kept: Mapping[str, Any] | None = None) -> Iterator[Result]:
        """Return the message and the ending. Raises ServiceFailure for a broken or empty answer.

        Where the service waits for people, the ending is a pause with `kept` and the state of the question.
        """
        if not self.is_done:
            raise ServiceFailure(
                "stream_broken",
                f"the answer of {self._title} ended in the middle; ask again, and look into its log if it "
                "happens often",
                retryable=True,
            )
        if self._filter is not None and (rest := self._filter.finish()):
            self._pieces.append(rest)
            yield delta(rest)
        text = self._shown(self._whole or "") + "".join(self._pieces)
        if self.asked is not None:
            if text.strip():
                yield message(text)
            state = {**(kept or {}), STATE_OF_SERVICE: dict(self.asked.state)}
            yield msgspec.structs.replace(paused(self.asked.calls, state), usage=self._usage)
            return
        if not text.strip():
            raise ServiceFailure(
                "empty_answer",
                f"{self._title} answered without a text; look at what it did there, or ask differently",
                retryable=True,
            )
        yield message(text)
        yield completed("stop", usage=self._usage)

    def _shown(self, whole: str) -> str:
        if not self._remove_think:
            return whole
        tags = ThinkFilter()
        return tags.feed(whole) + tags.finish()

    def _text(self, text: str) -> Iterator[Result]:
        self._grow(len(text.encode(errors="replace")))
        shown = text if self._filter is None else self._filter.feed(text)
        if shown:
            self._pieces.append(shown)
            yield delta(shown)

    def _grow(self, size: int, *, whole: bool = False) -> None:
        self._size = size if whole else self._size + size
        if self._size > MAX_TEXT_BYTES:
            raise ServiceFailure(
                "answer_too_long",
                f"the answer of {self._title} has over {MAX_TEXT_BYTES:,} bytes of text, the maximum; let it "
                "answer more briefly, or as a file",
            )

    def _session(self, name: str, value: str) -> Iterator[Result]:
        if value and self.sessions.get(name) != value:
            self.sessions[name] = value
            if self._keeps_state:
                yield state_updated("conversation", STATE_PREFIX + name, value)

    def _note(self, note: Note) -> Iterator[Result]:
        if note.text not in self._noted and len(self._noted) < MAX_NOTES:
            self._noted.add(note.text)
            yield log(note.text, note.level)
