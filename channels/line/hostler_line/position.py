"""What the channel keeps: replies whose outcome is not known, and the newest messages that it sent."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

MAX_REPLIES = 200
"""Replies that are under way or in doubt; while there are so many, messages are pushed."""
MAX_SETTLED = 30
"""Replies that were sent are known a little longer: the host may die before it has heard of it."""
MAX_SENT = 200
KEEP_SECONDS = 26 * 3_600.0
"""The host asks of a message for at most a day."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A try to send a message by a reply token. `came`: when that came; `message_id`: once it was sent."""

    token: str
    came: float
    message_id: str | None = None
    is_sent: bool = False

    @property
    def age(self) -> float:
        """Seconds since the token came."""
        return time.time() - self.came


class Position:
    """The kept state. It has at most some 40 KiB."""

    def __init__(self, state: Any) -> None:
        state = state if isinstance(state, dict) else {}
        replies, sent = state.get("replies"), state.get("sent")
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        for key, kept in replies.items() if isinstance(replies, dict) else ():
            if (reply := _reply(kept)) is not None:
                self._replies[key] = reply
        self._sent: OrderedDict[str, None] = OrderedDict.fromkeys(
            one for one in (sent if isinstance(sent, list) else []) if isinstance(one, str)
        )

    @property
    def state(self) -> dict[str, Any]:
        """The value to keep."""
        return {
            "replies": {
                key: [one.token, one.came, one.message_id, one.is_sent] for key, one in self._replies.items()
            },
            "sent": list(self._sent),
        }

    @property
    def has_room(self) -> bool:
        """Whether one more reply can be noted: none that is in doubt is ever forgotten for it."""
        self._forget()
        return sum(not one.is_sent for one in self._replies.values()) < MAX_REPLIES

    def replying(self, key: str, token: str, came: float) -> None:
        """Note that a message is about to be sent by a reply token."""
        self._replies[key] = Reply(token, came)

    def reply_of(self, key: str) -> Reply | None:
        """Return what is noted of a message."""
        return self._replies.get(key)

    def replied(self, key: str, message_id: str | None) -> None:
        """Note that it was sent."""
        before = self._replies.pop(key, None)
        if before is not None:
            self._replies[key] = Reply("", before.came, message_id, is_sent=True)
        self._forget()

    def not_replied(self, key: str) -> None:
        """Forget it: it is pushed from now on."""
        self._replies.pop(key, None)

    def sent(self, ids: list[str]) -> None:
        """Note messages of the bot: who quotes one of them addresses it."""
        for id_ in ids:
            self._sent[id_] = None
        while len(self._sent) > MAX_SENT:
            self._sent.popitem(last=False)

    def is_own(self, message_id: Any) -> bool:
        """Whether the bot sent a message, as far as that is kept."""
        return isinstance(message_id, str) and message_id in self._sent

    def _forget(self) -> None:
        settled = [key for key, one in self._replies.items() if one.is_sent]
        old = [key for key, one in self._replies.items() if one.age > KEEP_SECONDS]
        for key in {*settled[:-MAX_SETTLED], *old}:
            del self._replies[key]


def _reply(kept: Any) -> Reply | None:
    if not isinstance(kept, list) or len(kept) != 4:
        return None
    token, came, message_id, is_sent = kept
    if not isinstance(token, str) or not isinstance(came, int | float):
        return None
    return Reply(token, float(came), message_id if isinstance(message_id, str) else None, is_sent is True)
