"""Configuration other than agents: plugins, models, tools, stored as in the configuration file."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.ids import canonical_json

MAX_SETTINGS = 10_000
"""Entries of one kind that are returned at once."""

_q = load(__file__)
_objects = msgspec.json.Decoder(dict[str, Any])


class Setting(Record):
    """One entry. `text` is the entry of the configuration file as JSON; secrets in it are references."""

    kind: str
    name: str
    text: str
    updated_at: int
    """UTC epoch milliseconds."""

    @property
    def spec(self) -> dict[str, Any]:
        """The entry, decoded. InvalidArgumentError if the text is no JSON object."""
        try:
            return _objects.decode(self.text)
        except msgspec.DecodeError as error:
            raise InvalidArgumentError(
                f"{self.kind} {self.name!r}: the stored text is no JSON object"
            ) from error


def put(tx: Tx, workspace_id: str, kind: str, name: str, spec: dict[str, Any]) -> bool:
    """Store an entry; return False if it is unchanged."""
    text = canonical_json(spec).decode()
    return tx.run(_q.put, workspace_id=workspace_id, kind=kind, name=name, spec=text, now=tx.now) == 1


def find(tx: Tx, workspace_id: str, kind: str, name: str) -> Setting | None:
    """Return the entry of this name, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, kind=kind, name=name)
    return None if row is None else _setting(row)


def get(tx: Tx, workspace_id: str, kind: str, name: str) -> Setting:
    """Return the entry of this name. NotFoundError if there is none."""
    setting = find(tx, workspace_id, kind, name)
    if setting is None:
        raise NotFoundError(f"there is no {kind} named {name!r}")
    return setting


def page(
    tx: Tx, workspace_id: str, kind: str, *, after: str = "", limit: int = MAX_SETTINGS
) -> list[Setting]:
    """Return entries of a kind by name, after the name `after`."""
    rows = tx.all(_q.page, workspace_id=workspace_id, kind=kind, after=after, limit=limit)
    return [_setting(row) for row in rows]


def replace(tx: Tx, workspace_id: str, before: Setting, spec: dict[str, Any]) -> bool:
    """Store an entry in another form, unless it has changed since it was read."""
    text = canonical_json(spec).decode()
    key = {"workspace_id": workspace_id, "kind": before.kind, "name": before.name}
    return tx.run(_q.replace, **key, before=before.text, spec=text) == 1


def delete(tx: Tx, workspace_id: str, kind: str, name: str) -> bool:
    """Remove an entry; return False if there was none."""
    return tx.run(_q.delete, workspace_id=workspace_id, kind=kind, name=name) == 1


def _setting(row: Row) -> Setting:
    return Setting(row["kind"], row["name"], row["spec"], row["updated_at"])
