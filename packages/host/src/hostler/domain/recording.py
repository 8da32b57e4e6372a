"""A run's recording, and how a new attempt replays it up to the point where the previous one was lost.

`Recording` has the journal's results, in order, and calls, by name, of the attempts that a new attempt
continues. `FastForward` tracks the new attempt's position in it. The runner starts again from its beginning;
a recorded call is answered from the recording, a repeated result is compared and not stored twice. At the
first call without a recorded outcome, or the first result beyond the recorded ones, the new attempt becomes
`live`: what was recorded later belongs to concurrent work. Of that, the deltas after the last completed
message are superseded; everything else stays, and is not stored again if it is repeated.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple

import msgspec

from hostler.domain.answer_order import AnswerOrder
from hostler_protocol.calls import CALLS
from hostler_protocol.ids import digest
from hostler_protocol.results import HOST_ONLY_RESULTS

RESUMED = "resumed"
"""Type of the `attempt` entry that records from which result on an attempt was live."""
_DIGEST_BYTES = 16
_CALL_ID_CHARS = 24
_DELTA = "message.delta"
_COMPLETED = "message.completed"
_GIVEN_ID = re.compile(rb'"message_id":"m[0-9]+"')
"""A message id that the host assigned, numbered by order of arrival."""
_NOT_THE_RUNNERS = HOST_ONLY_RESULTS | {"run.paused"}
_PURE = "pure"
_EXTERNAL_CALLS = 10**9
"""More external calls than one attempt can make."""


class CallName(NamedTuple):
    """The name of a call in every attempt: method, digest of its parameters, number among such calls."""

    method: str
    digest: str
    nth: int

    @property
    def call_id(self) -> str:
        """The host's id of the call within its run, the same in every attempt."""
        return digest([self.method, self.digest, self.nth])[:_CALL_ID_CHARS]


def external_call_number(attempt: int, nth: int) -> int:
    """Return the number of an external call, made from outside of the runner, unique to this attempt.

    A later attempt need not repeat external calls. They are journalled with this number and without a digest,
    and recordings leave them out: no later attempt and no replay is answered from them or must make them.
    """
    return attempt * _EXTERNAL_CALLS + nth


def is_external_call(digest: str, nth: int) -> bool:
    """Whether a call in the journal was made from outside of the runner."""
    return not digest and nth > 0


class Resumed(msgspec.Struct):
    """Data of a `resumed` entry. `frontier`: the last recorded result that the attempt repeated."""

    attempt: int
    frontier: int


@dataclass(slots=True)
class RecordedCall:
    """One recorded call. `position` is that of its outcome, or None without one; `data` the entry's text.

    `data` is None if it was too large to keep in memory or is stored in `blob`. `intent` is the text of its
    last intent, empty once there is an outcome. `effect`: the call changed something, so a runner that omits
    it diverges. `alone`: the runner waited for no other answer when it made the call.
    """

    name: CallName
    position: int | None = None
    data: str | None = None
    blob: str | None = None
    intent: str | None = None
    effect: bool = False
    alone: bool = False


@dataclass(slots=True)
class Recording:
    """The recording, built entry by entry in the order of the journal."""

    calls: dict[CallName, RecordedCall] = field(default_factory=dict)
    message_ids: set[str] = field(default_factory=set)
    """Ids of the completed messages."""
    positions: array[int] = field(default_factory=lambda: array("q"))
    sequences: array[int] = field(default_factory=lambda: array("q"))
    loose: Counter[bytes] = field(default_factory=Counter)
    """Digests of results that stay, but that no later attempt must repeat, or repeat in order."""
    at_once: bool = False
    """Whether calls were concurrent, as far as their intents show."""
    last_at: int | None = None
    """Time of the last entry in UTC epoch milliseconds."""
    _digests: bytearray = field(default_factory=bytearray)
    _is_delta: bytearray = field(default_factory=bytearray)
    _begun: set[CallName] = field(default_factory=set)
    _completed: int = 0
    """Number of results up to the last completed message, none of which clients discard."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded."""
        return not self.calls and not self.positions and not self.loose

    def add_result(self, position: int, sequence: int, result_type: str, data: bytes) -> None:
        """Add a stored result; `data` is its stored payload. Results made by the host are left out."""
        if result_type in _NOT_THE_RUNNERS:
            return
        self.positions.append(position)
        self.sequences.append(sequence)
        self._digests += result_digest(result_type, data)
        self._is_delta.append(result_type == _DELTA)
        if result_type == _COMPLETED:
            self._completed = len(self.positions)

    def add_call(
        self,
        name: CallName,
        position: int,
        data: str | None,
        *,
        blob: str | None = None,
        changed: bool,
        alone: bool = False,
    ) -> None:
        """Add the outcome of a call. `changed`: the call had an effect."""
        call = self.calls.setdefault(name, RecordedCall(name))
        call.position, call.data, call.blob, call.alone = position, data, blob, alone
        self._begun.discard(name)
        call.effect = changed or call.intent is not None
        if call.intent is not None:  # no longer needed, and possibly large
            call.intent = ""

    def add_intent(self, name: CallName, data: str) -> None:
        """Add the intent of a call, which replaces an earlier one."""
        call = self.calls.setdefault(name, RecordedCall(name))
        call.intent, call.effect = data, True
        self._begun.add(name)
        self.at_once = self.at_once or len(self._begun) > 1

    def add_resumed(self, resumed: Resumed) -> None:
        """An attempt became live here: results beyond its frontier become loose or are superseded."""
        self._cut(bisect_right(self.sequences, resumed.frontier))

    def digest_at(self, index: int) -> bytes:
        """Return the digest of the result at an index."""
        return bytes(self._digests[index * _DIGEST_BYTES : (index + 1) * _DIGEST_BYTES])

    def holds(self, made: bytes, since: int) -> bool:
        """Whether an equal result is recorded at index `since` or later."""
        return any(made == self.digest_at(index) for index in range(since, len(self.positions)))

    def beyond(self, at: int) -> Counter[bytes]:
        """Return the results that stay from an index on: all but deltas after the last completed message."""
        stays = (n for n in range(at, len(self.positions)) if n < self._completed or not self._is_delta[n])
        return Counter(map(self.digest_at, stays))

    def _cut(self, at: int) -> None:
        self.loose += self.beyond(at)
        del self.positions[at:], self.sequences[at:], self._is_delta[at:]
        del self._digests[at * _DIGEST_BYTES :]
        self._completed = min(self._completed, at)


def is_effect(method: str, effect_class: str | None) -> bool:
    """Whether a call has an effect: as in CALLS, except that calls of pure tools have none."""
    call = CALLS.get(method)
    return call is not None and call.effect and effect_class != _PURE


def result_digest(result_type: str, data: bytes) -> bytes:
    """Return a digest of 16 bytes, equal for equal results; message ids from the host are ignored."""
    if result_type == _COMPLETED:
        data = _GIVEN_ID.sub(b"", data)
    return blake2b(result_type.encode() + b"\0" + data, digest_size=_DIGEST_BYTES).digest()


class FastForward:
    """A new attempt's position in a recording. Decides only; the caller acts. A divergence is a sentence."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._matched = 0
        self._loose = Counter(recording.loose)
        self._answers = {
            call.position: call for call in recording.calls.values() if call.position is not None
        }
        self._order = AnswerOrder(self._answers, recording.positions)
        self._unasked = {call.name for call in recording.calls.values() if call.effect}
        self._asked: set[CallName] = set()
        self._at_once = recording.at_once
        self.live = False
        """Whether the attempt is beyond the recording."""

    @property
    def frontier(self) -> int:
        """The sequence of the last recorded result that was repeated; 0: none."""
        return self._recording.sequences[self._matched - 1] if self._matched else 0

    @property
    def is_over(self) -> bool:
        """Whether the recording is used up: from here on the attempt is like any other."""
        return self.live and not self._loose and not self._unasked and self._order.is_over

    # -- results ----------------------------------------------------------------------------------

    def take(self, result_type: str, data: bytes) -> Literal["again", "new", "moved"] | str:
        """Classify a result of the runner: repeated (`again`), `new`, `moved`, or a sentence on its
        divergence.

        `moved`: it was recorded after others that are still missing; or, in a run with concurrent calls, it
        is new although recorded ones are missing, since one task got further this time. Call `go_live`, then
        take it again.
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
            return f"{result_type} is not what the runner sent before as result {sequence}"
        return "again" if self._is_loose(made) else "new"

    def _is_loose(self, made: bytes) -> bool:
        left = self._loose[made] - 1
        if left > 0:
            self._loose[made] = left
        elif left == 0:
            del self._loose[made]
        return left >= 0

    # -- calls ------------------------------------------------------------------------------------

    def peek(self, name: CallName) -> RecordedCall | None:
        """Return a call with a recorded outcome, or None; this does not count as the runner's call."""
        call = self._recording.calls.get(name)
        return None if call is None or call.position is None else call

    def find(self, name: CallName) -> RecordedCall | None:
        """Return the recorded call that the runner makes now, or None."""
        call = self._recording.calls.get(name)
        if call is not None:
            self._unasked.discard(name)
            self._asked.add(name)
            self._at_once = self._at_once or len(self._asked) > 1
        return call

    def may_answer(self, position: int) -> bool:
        """Whether the recorded answer at a position may be delivered: those before it were, or it is live."""
        return self.live or self._order.may_answer(position, self._matched)

    def answered(self, call: RecordedCall) -> None:
        """Note that the call's answer was delivered, or that the runner no longer waits for it."""
        if call.position is not None:
            self._order.answered(call.position)
        self._asked.discard(call.name)

    def ahead(self, already: int) -> RecordedCall | None:
        """Return the call whose answer may be sent before it is made, after `already` such answers; or None.

        It may if the runner can do nothing else first: all before it is done, calls and results, and neither
        it nor the next recorded call was made while another one was under way. So the last one never may: one
        without an outcome may have begun before its answer.
        """
        if self.live or self._at_once or self._asked:
            return None
        here, after = self._order.next_two(already, self._matched)
        if here is None or after is None:
            return None
        call = self._answers[here]
        return call if call.alone and self._answers[after].alone else None

    def go_live(self) -> None:
        """Note that the attempt does something not recorded; the remaining recorded results become loose."""
        if not self.live:
            self.live = True
            self._loose += self._recording.beyond(self._matched)

    @property
    def may_begin(self) -> bool:
        """Whether a new call with an effect may be made: all recorded ones have been requested.

        Of concurrent calls, the first to arrive need not be the recorded one.
        """
        return not self._unasked

    def effect_diverges(self, method: str) -> str:
        """Return the sentence for a new call with an effect, made while recorded ones are missing."""
        return f"{method} was not called before, and {self._name_unasked()}"

    def stall_diverges(self, position: int, seconds: float) -> str:
        """Return the sentence for a recorded answer that waits, nothing having happened for `seconds`."""
        method = self._answers[position].name.method
        return (
            f"{method} waits for what was recorded before it, and for {seconds:g} s "
            "the runner did nothing of that"
        )

    def end_diverges(self) -> str | None:
        """Return why the runner must not end here, or None if it may."""
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
