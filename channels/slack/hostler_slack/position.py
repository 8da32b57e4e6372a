"""What the channel keeps: the last message of each chat, threads that it wrote in, and uploads under way."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

MAX_PLACES = 300
"""Chats and threads whose last message is kept; those with the oldest are forgotten."""
MAX_THREADS = 300
MAX_UPLOADS = 50
MAX_IDS = 20

Place = tuple[str, str | None]
"""A chat, or one of its threads."""


class Position:
    """The kept state. It has at most some 30 KiB."""

    def __init__(self, state: Any) -> None:
        state = state if isinstance(state, dict) else {}
        self._since: OrderedDict[str, str] = _texts(state.get("since"))
        self._threads: OrderedDict[str, None] = OrderedDict.fromkeys(
            one for one in _list(state.get("threads")) if isinstance(one, str)
        )
        self._uploads: OrderedDict[str, list[str]] = OrderedDict()
        uploads = state.get("uploads")
        for key, ids in uploads.items() if isinstance(uploads, dict) else ():
            self._uploads[key] = [one for one in _list(ids) if isinstance(one, str)]
        self._held: dict[str, str] = {}
        """Of places that are caught up with: from where, which stays until that is done."""

    @property
    def state(self) -> dict[str, Any]:
        """The value to keep."""
        return {
            "since": {**self._since, **self._held},
            "threads": list(self._threads),
            "uploads": dict(self._uploads),
        }

    # -- what was said ----------------------------------------------------------------------------

    def came(self, place: Place, ts: str) -> None:
        """Note the last message of a place that is durable, or is about to be with this state."""
        name = _name(place)
        if ts > self._since.get(name, ""):
            self._since[name] = ts
            self._since.move_to_end(name)
        self._bound()

    def _bound(self) -> None:
        while len(self._since) > MAX_PLACES:
            gone, _ = self._since.popitem(last=False)
            self._held.pop(gone, None)

    def hold(self) -> list[tuple[Place, str]]:
        """Return from where each place is to be caught up with, newest first. It stays so until `caught`."""
        for name, ts in self._since.items():
            self._held.setdefault(name, ts)
        return [(_place(name), self._held[name]) for name in reversed(self._since)]

    def caught(self, place: Place) -> None:
        """Note that nothing is missing of a place any more."""
        self._held.pop(_name(place), None)

    # -- what the bot did -------------------------------------------------------------------------

    def wrote(self, chat_id: str, thread: str) -> None:
        """Note that the bot has written in a thread. Whether what was said in it is durable is not known."""
        self._since.setdefault(_name((chat_id, thread)), thread)
        self._threads[f"{chat_id}:{thread}"] = None
        self._threads.move_to_end(f"{chat_id}:{thread}")
        while len(self._threads) > MAX_THREADS:
            self._threads.popitem(last=False)
        self._bound()

    def took_part(self, chat_id: str, thread: str) -> bool:
        """Whether the bot has written in a thread."""
        return f"{chat_id}:{thread}" in self._threads

    def uploading(self, key: str, file_ids: list[str]) -> None:
        """Note the files of a message that are about to be shared."""
        self._uploads[key] = file_ids[:MAX_IDS]
        while len(self._uploads) > MAX_UPLOADS:
            self._uploads.popitem(last=False)

    def uploads_of(self, key: str) -> list[str] | None:
        """Return the files of a message that were about to be shared; None if none were."""
        return self._uploads.get(key)


def _name(place: Place) -> str:
    chat_id, thread = place
    return chat_id if thread is None else f"{chat_id}:{thread}"


def _place(name: str) -> Place:
    chat_id, _, thread = name.partition(":")
    return chat_id, thread or None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> OrderedDict[str, str]:
    given = value if isinstance(value, dict) else {}
    return OrderedDict((name, ts) for name, ts in given.items() if isinstance(ts, str))
