"""Answers that the host sent ahead of their calls, as one resumed attempt takes them."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.calls.digest import digest_of
from hostler_protocol.methods import METHODS, AnswerAhead, RunAheadNote
from hostler_protocol.payloads import decoder


class AnswersAhead:
    """The answers for the next calls of an attempt, in the order in which it has to make them.

    A call that is not the next one is made with an id, like any other, and makes all answers void that were
    sent before the host saw it.
    """

    def __init__(self) -> None:
        self._next: deque[AnswerAhead] = deque()
        self._requests = 0

    def __bool__(self) -> bool:
        return bool(self._next)

    def add(self, note: RunAheadNote) -> None:
        """Add answers, unless a call with an id was made that the host had not seen when it sent them."""
        if note.requests == self._requests:
            self._next += note.answers

    def requested(self) -> None:
        """Note that a call is made with an id."""
        self._requests += 1
        self._next.clear()

    def take(self, method: str, params: msgspec.Raw) -> Any:
        """Return the reply to a call, or None if its answer is not the next one sent ahead."""
        if not self._next or self._next[0].method != method:
            return None
        wire = METHODS[f"host/{method}"]
        try:
            if self._next[0].digest != digest_of(decoder(wire.params).decode(params)):
                return None
            reply = decoder(wire.reply).decode(self._next[0].result)
        except DECODE_ERRORS:  # the host says what is wrong with it
            return None
        self._next.popleft()
        return reply

    def clear(self) -> None:
        """Drop all: the attempt is over."""
        self._next.clear()
