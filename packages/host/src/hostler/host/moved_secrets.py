"""Move secrets that are written out in models and agents into the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from hostler.domain.agents import Agent
from hostler.domain.config_form import HIDDEN
from hostler.domain.model_entries import ModelEntry
from hostler.domain.record import Record
from hostler.domain.stored_secrets import reference_to
from hostler.domain.type_fit import convert
from hostler.domain.written_secrets import Forms, is_written_out, without_secrets
from hostler.host.entry_sealing import EntrySealing, T
from hostler.host.secret_store import SecretStore
from hostler.host.stored_config import plain
from hostler.secrets.resolver import SecretUnreadableError
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents, audit, installation, settings
from hostler.storage.stores.secrets import SecretFacts
from hostler_protocol.errors import ConflictError, InvalidArgumentError


class Place(Record):
    """Where a secret is written out: in `field` of a model, or of the `config` of an agent."""

    workspace_id: str
    kind: Literal["models", "agents"]
    name: str
    field: str


@dataclass(slots=True)
class MovedSecrets:
    """Moves secrets. `forms`: see `written_secrets`. `activate` is called after a model was changed,
    `agents_changed` with the workspace of a changed agent.
    """

    db: Database
    store: SecretStore
    sealing: EntrySealing
    forms: Forms
    activate: Callable[[], Awaitable[None]]
    agents_changed: Callable[[str], None]

    async def move(self, place: Place, name: str, actor: str) -> SecretFacts:
        """Store the secret at a place under a name that is free, and write the reference in its place.

        In an agent that makes a new version; the older ones refer to the stored secret, too. NotFoundError,
        InvalidArgumentError if no secret is written out there; ConflictError if there is a secret of that
        name.
        """
        if place.kind == "models":
            facts = await self._move_of_model(place, name, actor)
            await self.activate()
        else:
            facts = await self._move_of_agent(place, name, actor)
            self.agents_changed(place.workspace_id)
        self.sealing.note_replaced()
        return facts

    async def _move_of_model(self, place: Place, name: str, actor: str) -> SecretFacts:
        ws = place.workspace_id

        def read(tx: Tx) -> ModelEntry:
            return convert(settings.get(tx, ws, "model", place.name).spec, ModelEntry, place.name)

        entry = await self.db.read(read)
        await self.sealing.know([entry])
        value = entry.api_key and self._opened(ws, entry).api_key
        if place.field != "api_key" or value is None or not is_written_out(value):
            raise _nothing_there(place)

        def write(tx: Tx) -> None:
            if read(tx) != entry:
                raise _changed(place)
            moved = msgspec.structs.replace(entry, api_key=reference_to(name))
            settings.put(tx, ws, "model", entry.id, plain(moved))
            audit.record(tx, ws, actor, "model.changed", entry.id, {"moved": place.field})
            installation.change_revision(tx)

        return await self.store.set(ws, "installation", name, value, actor, existing=False, also=write)

    async def _move_of_agent(self, place: Place, name: str, actor: str) -> SecretFacts:
        ws = place.workspace_id
        agent = await self.db.read(lambda tx: agents.get(tx, ws, place.name))
        await self.sealing.know([agent.spec])
        shown = without_secrets(agent.spec, self.forms)
        value = self._opened(ws, agent.spec).config.get(place.field)
        if not isinstance(value, str) or value == HIDDEN or shown.config.get(place.field) != HIDDEN:
            raise _nothing_there(place)

        def write(tx: Tx) -> None:
            now = agents.get(tx, ws, place.name)
            if now.spec != agent.spec:
                raise _changed(place)
            moved = _replaced(now, place.field, name)
            version = agents.apply(tx, ws, moved, made_by=actor).version
            agents.rewrite_versions(
                tx,
                ws,
                now.agent_id,
                lambda old: (
                    _replaced(old, place.field, name)
                    if self.sealing.reads(ws, old.spec, place.field, value)
                    else None
                ),
            )
            body: dict[str, Any] = {"version": version, "moved": place.field}
            audit.record(tx, ws, actor, "agent.changed", place.name, body)

        return await self.store.set(ws, "workspace", name, value, actor, existing=False, also=write)

    def _opened(self, workspace_id: str, entry: T) -> T:
        try:
            return self.sealing.opened(workspace_id, entry)
        except SecretUnreadableError as error:
            raise InvalidArgumentError(f"the secret cannot be moved: {error.message}") from error


def _replaced(agent: Agent, field: str, name: str) -> Any:
    return msgspec.structs.replace(agent.spec, config={**agent.spec.config, field: reference_to(name)})


def _nothing_there(place: Place) -> InvalidArgumentError:
    where = "" if place.kind == "models" else "config."
    return InvalidArgumentError(
        f"{place.kind} {place.name!r}: no secret is written out in {where}{place.field}"
    )


def _changed(place: Place) -> ConflictError:
    return ConflictError(f"{place.kind} {place.name!r} has changed meanwhile: try again")
