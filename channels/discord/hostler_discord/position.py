"""How far the gateway's events are delivered: what the host keeps, so that another process goes on there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from hostler_discord.gateway import Session

MAX_PRIVATE = 200
"""Private chats in which is looked for what was missed: those that were used last."""


class Position:
    """The session and number of the last event, the newest message, and the private chats.

    While servers are caught up with, the state has no session, and the newest message of before: who begins
    with it catches up anew.
    """

    def __init__(self, intents: int, session: Session | None, last: int, private: Iterable[str]) -> None:
        self._intents = intents
        self.session = session
        self._last = last
        self._newest = last
        self._private: OrderedDict[str, None] = OrderedDict.fromkeys(private)
        self._missing: set[str] = set()

    @classmethod
    def of(cls, state: Any, intents: int) -> Position:
        """Return the position of a kept state. Events of other intents need another session."""
        kept = state if isinstance(state, dict) else {}
        session, last, private = kept.get("session"), kept.get("last", 0), kept.get("private", [])
        whole = isinstance(session, dict) and kept.get("intents") == intents
        return cls(
            intents,
            Session(session["id"], session["url"], session["seq"]) if whole and session else None,
            last if isinstance(last, int) else 0,
            [one for one in private if isinstance(one, str)],
        )

    @property
    def last(self) -> int:
        """The id of the newest message before which nothing is missing; 0 if none was ever heard."""
        return self._last if self._missing else self._newest

    @property
    def private(self) -> list[str]:
        """The private chats, the newest last."""
        return list(self._private)

    def state(self) -> dict[str, Any]:
        """Return what is kept."""
        session = None if self._missing else self.session
        kept = None
        if session is not None:
            kept = {"id": session.session_id, "url": session.url, "seq": session.seq}
        return {"session": kept, "intents": self._intents, "last": self.last, "private": self.private}

    def reach(self, session: Session) -> None:
        """Go past an event."""
        self.session = session

    def hear(self, message_id: Any, private_chat: str | None) -> None:
        """Note a message, and its private chat."""
        if str(message_id).isdecimal():
            self._newest = max(self._newest, int(message_id))
        if private_chat is not None:
            self._private[private_chat] = None
            self._private.move_to_end(private_chat)
            while len(self._private) > MAX_PRIVATE:
                self._private.popitem(last=False)

    def begin(self, newest: int, missing: Iterable[str]) -> None:
        """Begin a session, with parts that are to be caught up with; `newest`: if nothing was ever heard."""
        if self.last == 0:
            self._newest = newest
        else:
            self._last, self._missing = self.last, set(missing)

    def catch_up(self, part: str) -> bool:
        """Note that nothing is missing of a part; return whether it was the last one."""
        was = bool(self._missing)
        self._missing.discard(part)
        return was and not self._missing

    def is_missing(self, part: str) -> bool:
        """Whether a part is to be caught up with."""
        return part in self._missing
