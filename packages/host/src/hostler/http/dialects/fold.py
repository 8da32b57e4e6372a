"""Fold a run's stored results into the events of a dialect: pure, the same live, resumed and replayed.

An answer is the part of a run that answers one request: from the result after which it begins to the end of
the run, or to where the run waits for the client. A `Fold` writes one answer in a dialect. `Folding` drives
it over the stored results, and numbers the frames that it writes: frame n of an answer is the same in every
reading, so its number is a cursor from which any host continues exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

from hostler.domain.record import Record
from hostler.domain.run_event_reader import RunEvents
from hostler.domain.run_events import (
    Asked,
    Completed,
    ContentAdded,
    Failed,
    MessageEnded,
    MessageRetracted,
    MessageStarted,
    ReasoningAdded,
    ReasoningEnded,
    RunEvent,
    TextAdded,
    ToolReturned,
)
from hostler.http.problems import Problem, encode_problem, problem_of
from hostler.journal.feed import StoredResult
from hostler_protocol.content import Usage
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.results import ResultData, decode_data

CLIENT_TOOLS = frozenset({"client_tool"})
"""The kinds of requests that end an answer in every dialect: only the client can go on."""
_WAITS_ON = frozenset({"run.paused", "tool.call.completed"})
"""In a reading of the whole run, these end no request but the one whose call has returned."""
_STILL_WAITING = frozenset({"interaction.requested", "tool.call.started", "log"})
"""Results that may follow a request while it waits. Any other says that the run went on."""


class Answer(NamedTuple):
    """The part of a run that answers a request. `after`: the sequence of the last result before it."""

    run_id: str
    after: int = 0


class Waiting(Record):
    """The answer ends because the run waits for the client or for people. `asked`: the calls, in order."""

    asked: tuple[Asked, ...]


Ending = Completed | Failed | Waiting


class Fold(ABC):
    """Writes one answer in a dialect. No IO, no clock, nothing random: equal results give equal bytes.

    Each method returns frames: pieces of the response, such as whole server-sent events.
    """

    ends_at: frozenset[str] = CLIENT_TOOLS
    """Kinds of `interaction.requested` that end an answer."""
    retracts: bool = False
    """Whether the dialect can take back text that it has shown."""

    def begin(self) -> list[bytes]:
        """Return the frames before any result."""
        return []

    def before(self, sequence: int, event: RunEvent) -> None:  # noqa: B027  most dialects need none of it
        """Take note of an event of an earlier answer of the run, which is not shown in this one."""

    @abstractmethod
    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        """Return the frames of an event; `sequence`: that of its result.

        Completed and Failed come to `end` instead. Each message begins with a MessageStarted, also one of
        which the answer before has the beginning; a ToolReturned may be of a call of an answer before.
        """

    @abstractmethod
    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        """Return the frames that end the answer. `usage`: that of the whole run so far."""

    def refuse(self, problem: Problem) -> list[bytes]:
        """Return what a stream writes that has to end before its answer does, as when its reader's key ends.

        These frames are not counted: a reader goes on from the one before.
        """
        return [b"event: problem\ndata: %s\n\n" % encode_problem(problem)]


class _Data(msgspec.Struct):
    data: msgspec.Raw


_data = msgspec.json.Decoder(_Data)


def data_of(result: StoredResult) -> ResultData | None:
    """Return what a result says; None if only a newer host knows."""
    try:
        return decode_data(result.type, _data.decode(result.json).data)
    except InvalidArgumentError:
        return None


class Folding:
    """Drives a fold over the results of a run, from its first one.

    `skip`: frames that the client has already. `through`: requests that were decided end nothing, so that the
    answer is the whole run, up to its end or to where it waits now; `decided` are those of which the run has
    not shown that yet (the host's ids of the calls). `anywhere`: what is under way where the answer
    begins goes on in it, so that the frames of a result are the same wherever before it an answer began; the
    fold has to remember from `before` all that it would from `take`. `ending` is set once the answer is over;
    `finish` then gives its last frames. A client that says it has more than there are is told so at the end.
    """

    def __init__(
        self,
        fold: Fold,
        answer: Answer,
        *,
        skip: int = 0,
        through: bool = False,
        decided: Collection[str] = (),
        anywhere: bool = False,
    ) -> None:
        self.ending: Ending | None = None
        self.frames = 0
        """Number of the last frame so far."""
        self._fold = fold
        self._after = answer.after
        self._skip = skip
        self._through = through
        self._decided = decided
        self._anywhere = anywhere
        self._muted = -1
        self._taken = 0
        self._events = RunEvents(retracts=fold.retracts)
        self._asked: dict[str, Asked] = {}
        self._reasoning = False
        """Whether reasoning is under way in this answer."""
        self._messages: set[int] = set()
        """Keys of the messages that have begun in this answer."""
        self._finished = False

    @property
    def waits(self) -> bool:
        """Whether the answer ends here unless more results follow soon: the run waits for its client."""
        return self.ending is None and any(
            one.request.kind in self._fold.ends_at and call_id not in self._decided
            for call_id, one in self._asked.items()
        )

    @property
    def caught_up(self) -> bool:
        """Whether the answer has begun, and all frames that the client has were counted."""
        return self.frames >= self._skip and self._taken >= self._after

    def mute_through(self, sequence: int) -> None:
        """Write no frames of results up to a sequence: another reading has written them."""
        self._muted = sequence

    def begin(self) -> list[bytes]:
        """Return the frames before any result."""
        return self._count(self._fold.begin(), muted=self._muted >= 0)

    def take(self, result: StoredResult) -> list[bytes]:
        """Return the frames of one result; none once the answer is over."""
        if self.ending is not None:
            return []
        if self.waits and result.type not in _STILL_WAITING:
            if not self._through:
                self._wait()
                return []
            if result.type not in _WAITS_ON:
                self._asked.clear()
        if (data := data_of(result)) is None:
            return []
        self._taken = result.sequence
        if result.sequence <= self._after:
            for event in self._events.take(result.sequence, data):
                self._before(result.sequence, event)
            return []
        frames: list[bytes] = []
        for event in self._events.take(result.sequence, data):
            frames += self._one(result.sequence, event)
        return self._count(frames, muted=result.sequence <= self._muted)

    def cut(self) -> None:
        """End the answer because the run waits for its client and nothing more came."""
        if self.waits:
            self._wait()

    def finish(self, usage: Usage | None) -> list[bytes]:
        """Return the frames that end the answer, once `ending` is set; none the second time."""
        if self.ending is None or self._finished:
            return []
        self._finished = True
        frames = self._count(self._fold.end(self.ending, usage), muted=False)
        if self.frames < self._skip:
            beyond = InvalidArgumentError(
                f"the client says that it has {self._skip} events of this answer, which has {self.frames}"
            )
            return self._fold.refuse(problem_of(beyond))
        return frames

    def refuse(self, problem: Problem) -> list[bytes]:
        """Return what is written if the stream has to end now."""
        return self._fold.refuse(problem)

    def _one(self, sequence: int, event: RunEvent) -> list[bytes]:
        if isinstance(event, Completed | Failed):
            self.ending = event
            return []
        frames: list[bytes] = []
        match event:
            case Asked():
                self._asked[event.request.call_id] = event
            case ToolReturned() if self._through:
                self._asked = {name: one for name, one in self._asked.items() if one.key != event.key}
            case ReasoningAdded():
                self._reasoning = True
            case ReasoningEnded():
                if not self._reasoning:  # it was in the answer before this one
                    return []
                self._reasoning = False
            case MessageStarted():
                self._messages.add(event.key)
            case MessageRetracted(text=""):
                pass  # what it said so far was reasoning, or is gone
            case TextAdded() | ContentAdded() | MessageRetracted() | MessageEnded():
                if event.key not in self._messages:  # it began in the answer before this one
                    self._messages.add(event.key)
                    frames += self._fold.take(sequence, MessageStarted(event.key, None))
        return frames + self._fold.take(sequence, event)

    def _before(self, sequence: int, event: RunEvent) -> None:
        self._fold.before(sequence, event)
        if not self._anywhere:
            return
        match event:
            case ReasoningAdded():
                self._reasoning = True
            case ReasoningEnded():
                self._reasoning = False
            case MessageStarted():
                self._messages.add(event.key)
            case _:
                pass

    def _wait(self) -> None:
        waiting = [one for call_id, one in self._asked.items() if call_id not in self._decided]
        self.ending = Waiting(tuple(waiting))

    def _count(self, frames: list[bytes], *, muted: bool) -> list[bytes]:
        before, self.frames = self.frames, self.frames + len(frames)
        if muted:
            return []
        return frames if before >= self._skip else frames[self._skip - before :]


def fold_all(fold: Fold, answer: Answer, results: list[StoredResult], usage: Usage | None) -> Iterator[bytes]:
    """Yield all frames of an answer from the results of a run that ended or waits."""
    folding = Folding(fold, answer)
    yield from folding.begin()
    for result in results:
        yield from folding.take(result)
    folding.cut()
    yield from folding.finish(usage)
