"""The ids of a run's messages: those set by the runner, and those that the host fills in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from hostler.domain.keys import check_id
from hostler_protocol.content import Message

MAX_MESSAGES_PER_RUN = 100_000
"""Completed messages whose ids are remembered, to recognise repetitions."""


@dataclass(slots=True)
class MessageIds:
    """`complete`: ids of completed messages; a second message with such an id is a repetition."""

    complete: set[str]
    _taken: set[str] = field(default_factory=set)
    _filled: int = 0

    @property
    def is_full(self) -> bool:
        """Whether no further message can be remembered."""
        return len(self.complete) >= MAX_MESSAGES_PER_RUN

    def keep(self, message_ids: Iterable[str]) -> None:
        """Reserve ids that the host assigned in an earlier attempt: no new message gets one."""
        self._taken.update(message_ids)

    def identified(self, message: Message) -> tuple[Message, bool]:
        """Return the message with its id, and whether its id is new among the completed messages."""
        message_id = message.message_id
        if message_id is None:
            message_id = self._next()
            message = msgspec.structs.replace(message, message_id=message_id)
        check_id("message_id", message_id)
        is_new = message_id not in self.complete
        if not self.is_full:
            self.complete.add(message_id)
        return message, is_new

    def _next(self) -> str:
        while True:
            self._filled += 1
            message_id = f"m{self._filled}"
            if message_id not in self.complete and message_id not in self._taken:
                return message_id
