"""Recorded answers that are sent to the runner ahead of their calls, and the calls that took them.

Answers go ahead together with that to a call with an id, and again when some of them were taken. A call that
took its answer comes without an id. One with an id says that the runner's SDK did not take the next answer:
then none of those sent ahead is taken any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from hostler.calls.functions import STREAM_FUNCTIONS
from hostler.calls.gate import GatedRun, is_granted
from hostler.domain.recording import CallName, RecordedCall
from hostler.journal.call_records import answer_of
from hostler.journal.resume import Resumption
from hostler_protocol.errors import HostlerError
from hostler_protocol.limits import MAX_ANSWERS_AHEAD
from hostler_protocol.methods import METHODS, AnswerAhead
from hostler_protocol.payloads import decoder


class SendAhead(NamedTuple):
    """How answers are sent ahead. `send` is given the number of calls with an id seen so far."""

    send: Callable[[int, list[AnswerAhead]], None]
    max_bytes: int


_AT_ONCE = 128
"""Answers in one message: to prepare them takes the host 1 to 2 ms, in which it does nothing else."""
_TAKEN = 32
"""More are sent when so many were taken since: on the way there and back the runner uses up about as many."""
_ENVELOPE_BYTES = 128
"""About what method and digest of an answer take."""


class _Sent(NamedTuple):
    call: RecordedCall
    size: int


class AnswersAhead:
    """The answers that were sent ahead and not taken, at most MAX_ANSWERS_AHEAD."""

    def __init__(self, resumption: Resumption, gated: GatedRun, ahead: SendAhead) -> None:
        self._resumption = resumption
        self._gated = gated
        self._send, self._max_bytes = ahead
        self._sent: deque[_Sent] = deque()
        self._bytes = 0
        self._taken = 0
        """Number of answers taken since some were sent."""
        self._requests = 0
        self._is_over = False

    def requested(self, name: CallName | None) -> None:
        """Note a call with an id. `name` is None if its answer is not recorded.

        One that is not the next of those sent ahead ends the sending: the runner goes another way.
        """
        self._requests += 1
        if self._sent and self._sent[0].call.name != name:
            self._is_over = True
        self._sent.clear()
        self._bytes = 0

    def take(self, name: CallName) -> RecordedCall | None:
        """Return the call whose answer was taken, or None if that was not the next one sent ahead."""
        if not self._sent or self._sent[0].call.name != name:
            return None
        call, size = self._sent.popleft()
        self._bytes -= size
        self._taken += 1
        return call

    def send_more(self) -> bool:
        """Send the next answers ahead, unless enough are on their way.

        Return whether one of them is that of a call that changed something.
        """
        if self._is_over or (self._sent and self._taken < _TAKEN):
            return False
        found = list(islice(self._next(), _AT_ONCE))
        self._taken = 0
        if found:
            self._send(self._requests, [answer for _, answer in found])
        return any(call.effect for call, _ in found)

    def _next(self) -> Iterator[tuple[RecordedCall, AnswerAhead]]:
        while len(self._sent) < MAX_ANSWERS_AHEAD:
            call = self._resumption.ahead(len(self._sent))
            answer = None if call is None else self._answer(call)
            if call is None or answer is None:
                return
            size = len(bytes(answer.result)) + _ENVELOPE_BYTES
            if self._bytes + size > self._max_bytes:
                return
            self._sent.append(_Sent(call, size))
            self._bytes += size
            yield call, answer

    def _answer(self, call: RecordedCall) -> AnswerAhead | None:
        """Return the answer as it is sent; None: it waits for its call, whatever becomes of that."""
        method = call.name.method
        if call.data is None or method in STREAM_FUNCTIONS or method not in self._gated.grant.calls:
            return None
        try:
            answer = answer_of(call.data)
            params = decoder(METHODS[f"host/{method}"].params).decode(answer.params)
        except (msgspec.DecodeError, HostlerError):
            return None
        if answer.given_up or answer.error is not None or not is_granted(self._gated, method, params):
            return None
        return AnswerAhead(method=method, digest=call.name.digest, result=answer.reply)
