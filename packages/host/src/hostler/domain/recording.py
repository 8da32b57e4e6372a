"""A run's recording, and going through it: how a new attempt comes to where the one before was lost.

`Recording` is what the journal says of the attempts that a new one goes on from: results in order, calls by
what they are known by. `FastForward` is the new attempt's way through it. The runner runs again from its
beginning; a call that the recording holds is answered from it, a result made again is compared and not stored
twice. The first call that has no recorded outcome, or the first result beyond the recorded ones, is where the
new attempt is `live`: what was recorded after that place belongs to work that was under way at the same time.
Of that, the deltas after the last completed message are superseded; anything else stays, and is not stored
again if it is made again.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple

import msgspec

from hostler_protocol.calls import CALLS
from hostler_protocol.ids import digest
from hostler_protocol.results import HOST_ONLY_RESULTS

RESUMED = "resumed"
"""Type of the `attempt` entry that says from which result on an attempt was live."""
_DIGEST_BYTES = 16
_CALL_ID_CHARS = 24
_DELTA = "message.delta"
_COMPLETED = "message.completed"
_GIVEN_ID = re.compile(rb'"message_id":"m[0-9]+"')
"""An id that the host gave, by the order in which messages came."""
_NOT_THE_RUNNERS = HOST_ONLY_RESULTS | {"run.paused"}
_PURE = "pure"
_GUEST_CALLS = 10**9
"""More than one attempt can have."""


class CallName(NamedTuple):
    """What a call is known by in every attempt: method, digest of its parameters, how many-th such it is."""

    method: str
    digest: str
    nth: int

    @property
    def call_id(self) -> str:
        """The host's own name of the call within its run, the same in every attempt that makes it."""
        return digest([self.method, self.digest, self.nth])[:_CALL_ID_CHARS]


def guest_call_number(attempt: int, nth: int) -> int:
    """The number, of this attempt and no other, of a call that somebody made from outside of the runner.

    Nobody can say that the service which made it makes it again when the runner runs again. So it stands in
    the journal with this number and without a digest, by which recordings leave it out: no later attempt and
    no replay is answered from it, or has to repeat it.
    """
    return attempt * _GUEST_CALLS + nth


def is_guest_call(digest: str, nth: int) -> bool:
    """Whether a call in the journal was made by somebody else than the runner."""
    return not digest and nth > 0


class Resumed(msgspec.Struct):
    """Data of a `resumed` entry. `frontier`: the last recorded result that the attempt made again."""

    attempt: int
    frontier: int


@dataclass(slots=True)
class RecordedCall:
    """One call. `position` is that of its outcome, None where there is none; `data` its entry's text.

    `data` is None where it was too much to be kept in memory, or lies in `blob`. `intent` is the text of its
    last intent, empty once there is an outcome. `effect`: it changed something, so a runner that leaves it
    out does something else.
    """

    name: CallName
    position: int | None = None
    data: str | None = None
    blob: str | None = None
    intent: str | None = None
    effect: bool = False


@dataclass(slots=True)
class Recording:
    """What was recorded, grown entry by entry in the order of the journal."""

    calls: dict[CallName, RecordedCall] = field(default_factory=dict)
    message_ids: set[str] = field(default_factory=set)
    """Of completed messages among the results."""
    positions: array[int] = field(default_factory=lambda: array("q"))
    sequences: array[int] = field(default_factory=lambda: array("q"))
    loose: Counter[bytes] = field(default_factory=Counter)
    """Results that stay, but that no later attempt has to make again, nor in that order."""
    at_once: bool = False
    """Whether calls were under way at the same time, as far as their intents show."""
    last_at: int | None = None
    """When the last entry was written, in UTC epoch milliseconds."""
    _digests: bytearray = field(default_factory=bytearray)
    _is_delta: bytearray = field(default_factory=bytearray)
    _begun: set[CallName] = field(default_factory=set)
    _completed: int = 0
    """How many results there are up to the last completed message: who watches drops none of those."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to go on from."""
        return not self.calls and not self.positions and not self.loose

    def add_result(self, position: int, sequence: int, result_type: str, data: bytes) -> None:
        """A result that was stored; `data` is its payload as stored. The host's own are left out."""
        if result_type in _NOT_THE_RUNNERS:
            return
        self.positions.append(position)
        self.sequences.append(sequence)
        self._digests += result_digest(result_type, data)
        self._is_delta.append(result_type == _DELTA)
        if result_type == _COMPLETED:
            self._completed = len(self.positions)

    def add_call(
        self, name: CallName, position: int, data: str | None, *, blob: str | None = None, changed: bool
    ) -> None:
        """The outcome of a call. `changed`: it did something."""
        call = self.calls.setdefault(name, RecordedCall(name))
        call.position, call.data, call.blob = position, data, blob
        self._begun.discard(name)
        call.effect = changed or call.intent is not None
        if call.intent is not None:  # what it was begun with is of no more use, and may be large
            call.intent = ""

    def add_intent(self, name: CallName, data: str) -> None:
        """A call that was begun; its last intent counts."""
        call = self.calls.setdefault(name, RecordedCall(name))
        call.intent, call.effect = data, True
        self._begun.add(name)
        self.at_once = self.at_once or len(self._begun) > 1

    def add_resumed(self, resumed: Resumed) -> None:
        """An attempt was live from here on: what was recorded beyond its frontier is loose, or superseded."""
        self._cut(bisect_right(self.sequences, resumed.frontier))

    def digest_at(self, index: int) -> bytes:
        """What the result at an index is compared by."""
        return bytes(self._digests[index * _DIGEST_BYTES : (index + 1) * _DIGEST_BYTES])

    def holds(self, made: bytes, since: int) -> bool:
        """Whether a result like this one stands at an index or after it."""
        return any(made == self.digest_at(index) for index in range(since, len(self.positions)))

    def beyond(self, at: int) -> Counter[bytes]:
        """What stays of the results from an index on: all but the deltas after the last completed message."""
        stays = (n for n in range(at, len(self.positions)) if n < self._completed or not self._is_delta[n])
        return Counter(map(self.digest_at, stays))

    def _cut(self, at: int) -> None:
        self.loose += self.beyond(at)
        del self.positions[at:], self.sequences[at:], self._is_delta[at:]
        del self._digests[at * _DIGEST_BYTES :]
        self._completed = min(self._completed, at)


def is_effect(method: str, effect_class: str | None) -> bool:
    """Whether a call changes something: what CALLS says, but for tools that are pure."""
    call = CALLS.get(method)
    return call is not None and call.effect and effect_class != _PURE


def result_digest(result_type: str, data: bytes) -> bytes:
    """What two results are compared by: 16 bytes."""
    if result_type == _COMPLETED:
        data = _GIVEN_ID.sub(b"", data)
    return blake2b(result_type.encode() + b"\0" + data, digest_size=_DIGEST_BYTES).digest()


class FastForward:
    """A new attempt's way through a recording. Says what to do; does nothing itself.

    `sequence`: the last one given out when the attempt began. A divergence is told as the sentence that
    names it.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._matched = 0
        self._loose = Counter(recording.loose)
        self._outcomes = sorted(
            (call.position, call.name) for call in recording.calls.values() if call.position is not None
        )
        self._next_outcome = 0
        self._released: set[CallName] = set()
        self._unasked = {call.name for call in recording.calls.values() if call.effect}
        self._asked: set[CallName] = set()
        self._at_once = recording.at_once
        self.live = False
        """Whether the attempt does what no recording holds."""

    @property
    def frontier(self) -> int:
        """The sequence of the last recorded result that was made again; 0: none."""
        return self._recording.sequences[self._matched - 1] if self._matched else 0

    @property
    def is_over(self) -> bool:
        """Whether the recording has nothing more to say: from here on the attempt is like any other."""
        return (
            self.live and not self._loose and len(self._released) == len(self._outcomes) and not self._open()
        )

    def _open(self) -> bool:
        return any(name not in self._released for name in self._unasked)

    # -- results ----------------------------------------------------------------------------------

    def take(self, result_type: str, data: bytes) -> Literal["again", "new", "moved"] | str:
        """A result of the runner: made `again`, `new`, or the sentence that says how it diverges.

        `moved`: made before, but later than others that are still missing; or, where the run does several
        things at once, not made before although others are missing: one of them came further this time. Tell
        `go_live`, and take it again.
        """
        if self.live and not self._loose:
            return "new"
        made = result_digest(result_type, data)
        if not self.live and self._matched < len(self._recording.positions):
            if made == self._recording.digest_at(self._matched):
                self._matched += 1
                return "again"
            if self._is_loose(made):
                return "again"
            if self._at_once or self._recording.holds(made, self._matched + 1):
                return "moved"
            sequence = self._recording.sequences[self._matched]
            return f"{result_type} is not what the runner gave out before as result {sequence}"
        return "again" if self._is_loose(made) else "new"

    def _is_loose(self, made: bytes) -> bool:
        left = self._loose[made] - 1
        if left > 0:
            self._loose[made] = left
        elif left == 0:
            del self._loose[made]
        return left >= 0

    # -- calls ------------------------------------------------------------------------------------

    def find(self, name: CallName) -> RecordedCall | None:
        """What the recording holds of a call, which is asked for now."""
        call = self._recording.calls.get(name)
        if call is not None:
            self._unasked.discard(name)
            self._asked.add(name)
            self._at_once = self._at_once or len(self._asked) > 1
        return call

    def may_answer(self, call: RecordedCall) -> bool:
        """Whether a recorded outcome's turn has come: after the results and outcomes recorded before it."""
        if self.live or call.position is None:
            return True
        before = bisect_left(self._recording.positions, call.position)
        while self._next_outcome < len(self._outcomes):
            position, name = self._outcomes[self._next_outcome]
            if name not in self._released:
                return position >= call.position and self._matched >= before
            self._next_outcome += 1
        return True

    def answered(self, call: RecordedCall) -> None:
        """Its outcome went to the runner, or nobody waits for it any more."""
        self._released.add(call.name)
        self._asked.discard(call.name)

    def go_live(self) -> None:
        """Something that is not recorded is done from here on; recorded results beyond are loose."""
        if not self.live:
            self.live = True
            self._loose += self._recording.beyond(self._matched)

    @property
    def may_begin(self) -> bool:
        """Whether a call with an effect that is not recorded may be made: all that are were asked for.

        Of calls made at once the one that comes first need not be the one that was recorded.
        """
        return not self._unasked

    def effect_diverges(self, method: str) -> str:
        """The sentence for a call that is not recorded, and waited in vain for those that are."""
        return f"{method} was not called before, and {self._name_unasked()}"

    def end_diverges(self) -> str | None:
        """Why the runner may not end here; None: it may."""
        left = 0 if self.live else len(self._recording.positions) - self._matched
        if left:
            sequence = self._recording.sequences[self._matched]
            return f"the runner ended, although it went on to result {sequence} before"
        if self._unasked:
            return f"the runner ended, although {self._name_unasked()}"
        return None

    def _name_unasked(self) -> str:
        first = min(self._unasked, key=self._position)
        others = f" and {len(self._unasked) - 1} others" if len(self._unasked) > 1 else ""
        return f"{first.method}{others}, which changed something before, was not asked for again"

    def _position(self, name: CallName) -> int:
        position = self._recording.calls[name].position
        return 2**62 if position is None else position
