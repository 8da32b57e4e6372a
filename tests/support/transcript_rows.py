"""Short ways to fill a transcript and to search in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hostler.domain.place import Place
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import search, transcripts
from hostler.storage.stores.transcripts import StoredItem, item_of
from hostler_protocol.content import Content, Message
from support.databases import read, write


def add(tx: Tx, content: Content, *, ws: str = "w", role: Any = "user", **more: Any) -> None:
    where = Place(more.pop("bot_id", None), more.pop("conversation_id", "c"), more.pop("thread_id", None))
    transcripts.append(tx, ws, item_of(Message(role=role, content=content), where, **more))


def fill(database: SqlDatabase, bodies: Iterable[str], **place: Any) -> None:
    def work(tx: Tx) -> None:
        for body in bodies:
            add(tx, body, **place)

    write(database, work)


def texts(found: list[StoredItem]) -> list[str]:
    return [item.content for item in found]


def find(database: SqlDatabase, query: str, **scope: Any) -> list[str]:
    scope.setdefault("conversation_id", "c")
    return texts(read(database, lambda tx: search.search(tx, "w", query, **scope)).items)


PLACES = [
    ("c", None, "b"),
    ("c", "t", "b"),
    ("c", "", "b"),
    ("c", None, None),
    ("c", None, "b2"),
    ("d", "t", "b"),
]
