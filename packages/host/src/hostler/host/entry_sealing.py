"""Sealing of secrets that are written out in models and agents: before an entry is stored, and in the
background for what was stored before.

Where no master key is configured they are stored as they are.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry
from hostler.domain.secret_refs import is_sealed
from hostler.domain.type_fit import convert
from hostler.domain.written_secrets import Forms, has_unknown_form, sealed_in, with_values, written_in
from hostler.host.stored_config import plain
from hostler.secrets.key_ring import LiveKeyRing
from hostler.secrets.resolver import SecretUnreadableError
from hostler.secrets.written import SecretPlace, WrittenSecrets
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents, settings, written_keys
from hostler.storage.stores.agents import StoredVersion
from hostler.storage.stores.settings import Setting
from hostler_protocol.errors import InvalidArgumentError

log = logging.getLogger(__name__)

T = TypeVar("T", bound=ModelEntry | AgentSpec)
PAGE = 100
"""Entries that are read, and sealed in one transaction."""


async def _nothing_to_truncate() -> bool:
    return True


class EntrySealing:
    """Seals and opens the secrets in entries of one installation.

    `workspace_id`: whose models they are. `truncate_log` removes old pages from the log of the database, and
    returns whether it could.
    """

    def __init__(
        self,
        db: Database,
        workspace_id: str,
        key_ring: LiveKeyRing,
        forms: Forms,
        truncate_log: Callable[[], Awaitable[bool]] = _nothing_to_truncate,
    ) -> None:
        self._db = db
        self._workspace = workspace_id
        self._key_ring = key_ring
        self._forms = forms
        self._truncate_log = truncate_log
        self.secrets = WrittenSecrets(key_ring)
        self._is_due = True
        """Whether something may be stored in the clear: a start, or an entry that was stored so."""
        self._unknown: frozenset[str] = frozenset()
        """Runners whose form is not known yet, of agents that perhaps have a secret."""
        self._log_has_old_pages = True
        """At a start, too: an earlier host may have been killed before it emptied the log."""

    def under(self, key_ring: LiveKeyRing | None, forms: Forms) -> EntrySealing:
        """Return the sealing under other master keys (None: the same) and with forms that are known first."""

        def known(runner: str) -> Mapping[str, str] | None:
            found = forms(runner)
            return self._forms(runner) if found is None else found

        ring = self._key_ring if key_ring is None else key_ring
        other = EntrySealing(self._db, self._workspace, ring, known)
        other.secrets = self.secrets.under(ring)
        return other

    async def load(self) -> None:
        """Read the keys as they are now."""
        self.secrets.replace(await self._db.read(written_keys.wrapped_keys))

    async def know(self, entries: Iterable[ModelEntry | AgentSpec]) -> None:
        """Read the keys again if another host has made one that sealed something in these entries."""
        await self._know([text for entry in entries for text in sealed_in(entry).values()])

    async def _know(self, sealed: Iterable[str]) -> None:
        if not all(map(self.secrets.knows, sealed)):
            await self.load()

    # -- entries -------------------------------------------------------------------------------------

    def kept(self, workspace_id: str, entry: T, stored: T | None) -> T:
        """Return an entry with the stored text in place of each secret that did not change."""
        if stored is None or not (sealed := sealed_in(stored)):
            return entry
        given = {"api_key": entry.api_key} if isinstance(entry, ModelEntry) else entry.config
        same = {
            name: text
            for name, text in sealed.items()
            if isinstance(value := given.get(name), str) and self.reads(workspace_id, stored, name, value)
        }
        return with_values(entry, same)

    def reads(self, workspace_id: str, entry: ModelEntry | AgentSpec, field: str, value: str) -> bool:
        """Whether this secret is written out in a field, sealed or not."""
        text = entry.api_key if isinstance(entry, ModelEntry) else entry.config.get(field)
        if not isinstance(text, str):
            return False
        try:
            return self.secrets.open(_place(workspace_id, entry, field), text) == value
        except SecretUnreadableError:
            return False

    async def sealed(self, workspace_id: str, entry: T, stored: T | None) -> T:
        """Return an entry as it is stored. KeyRingError: nothing may be stored in the clear instead.

        A secret that is stored in the clear and did not change stays as it is, until `keep` comes to it.
        """
        before = {} if stored is None else written_in(stored, self._forms)
        new = {
            name: value
            for name, value in written_in(entry, self._forms).items()
            if not is_sealed(value) and before.get(name) != value
        }
        key_id = await self._current_key() if new else None
        return entry if key_id is None else self._with_sealed(key_id, workspace_id, entry, new)

    def opened(self, workspace_id: str, entry: T) -> T:
        """Return an entry with its secrets in the clear. SecretUnreadableError names the field."""
        values = {}
        for name, text in sealed_in(entry).items():
            try:
                values[name] = self.secrets.open(_place(workspace_id, entry, name), text)
            except SecretUnreadableError as error:
                raise SecretUnreadableError(f"{name}: {error.message}") from error
        return with_values(entry, values)

    def usable_models(self, models: Iterable[ModelEntry]) -> tuple[list[ModelEntry], dict[str, str]]:
        """Return the models with their keys in the clear, and why others cannot be used, by id."""
        found: list[ModelEntry] = []
        closed: dict[str, str] = {}
        for model in models:
            try:
                found.append(self.opened(self._workspace, model))
            except SecretUnreadableError as error:
                closed[model.id] = error.message
        return found, closed

    async def for_run(self, workspace_id: str, agent: str, sealed: Mapping[str, str]) -> dict[str, str]:
        """Return the secrets in the configuration of an agent for a run. SecretUnreadableError."""
        await self._know(sealed.values())
        found = {}
        for field, text in sealed.items():
            try:
                found[field] = self.secrets.open(SecretPlace(workspace_id, "agent", agent, field), text)
            except SecretUnreadableError as error:
                raise SecretUnreadableError(f"config.{field}: {error.message}") from error
        return found

    def note_stored(self, entries: Iterable[ModelEntry | AgentSpec]) -> None:
        """Note that entries were stored: what is in the clear in them is sealed once that is possible."""
        if any(self._plain(entry) or has_unknown_form(entry, self._forms) for entry in entries):
            self._is_due = True

    def note_replaced(self) -> None:
        """Note that a secret in the clear was replaced in the database, whose log may still have it."""
        self._log_has_old_pages = True

    def _plain(self, entry: Any) -> dict[str, str]:
        return {name: value for name, value in written_in(entry, self._forms).items() if not is_sealed(value)}

    def _with_sealed(self, key_id: str, workspace_id: str, entry: T, values: Mapping[str, str]) -> T:
        sealed = {
            name: self.secrets.seal(key_id, _place(workspace_id, entry, name), value)
            for name, value in values.items()
        }
        return with_values(entry, sealed)

    async def _current_key(self) -> str | None:
        """Return the id of a key, which is made if there is none; None without a master key. KeyRingError."""
        if self._key_ring.ring is None:
            return None
        if (key_id := self.secrets.current()) is not None:
            return key_id
        await self.load()
        if (key_id := self.secrets.current()) is not None:
            return key_id
        key_id = secrets.token_hex(8)
        wrapped = self.secrets.new_key(key_id)
        await self._db.write(lambda tx: written_keys.add(tx, key_id, wrapped), synced=True)
        await self.load()
        return key_id

    # -- upkeep ---------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Do what is due: wrap keys with the current master key, and seal what is stored in the clear.

        An interruption anywhere is fine: each entry has its old text or its new one. KeyRingError.
        """
        if self._key_ring.locked is not None or self._key_ring.ring is None:
            return
        await self.rewrap()
        if self._is_due or any(self._forms(runner) is not None for runner in self._unknown):
            self._is_due = False
            try:
                sealed = await self._seal_models() + await self._seal_agents()
            except BaseException:
                self._is_due = True
                raise
            if sealed:
                log.info("sealed secrets that were written out in %d stored entries", sealed)
                self._log_has_old_pages = True
        if self._log_has_old_pages and await self._truncate_log():
            self._log_has_old_pages = False

    async def rewrap(self) -> None:
        """Wrap the keys that seal entries with the current master key."""
        ring = self._key_ring.ring
        wrapped = await self._db.read(written_keys.wrapped_keys, brief=True)
        if ring is None or all(ring.is_current(key) for key in wrapped.values()):
            return
        self.secrets.replace(wrapped)
        new = {key_id: key for key_id in wrapped if (key := self.secrets.rewrapped(key_id)) is not None}
        if new:
            await self._db.write(
                lambda tx: [
                    written_keys.rewrap(tx, key_id, wrapped[key_id], key) for key_id, key in new.items()
                ]
            )
            await self.load()
            log.info("%d keys of written-out secrets are under the current master key now", len(new))

    async def _seal_models(self) -> int:
        found = await self._db.read(lambda tx: settings.page(tx, self._workspace, "model"))
        sealed: list[tuple[Setting, ModelEntry]] = []
        for setting in found:
            try:
                entry = convert(setting.spec, ModelEntry, setting.name)
            except InvalidArgumentError:
                continue  # of another version: it is not in use
            if (values := self._plain(entry)) and (key_id := await self._current_key()) is not None:
                sealed.append((setting, self._with_sealed(key_id, self._workspace, entry, values)))
        if not sealed:
            return 0
        return await self._db.write(
            lambda tx: sum(settings.replace(tx, self._workspace, old, plain(new)) for old, new in sealed)
        )

    async def _seal_agents(self) -> int:
        after, count, unknown = agents.FIRST_VERSION, 0, set[str]()
        while page := await self._db.read(lambda tx, at=after: agents.all_versions(tx, after=at, limit=PAGE)):  # type: ignore[misc]
            after = page[-1].key
            sealed: list[tuple[StoredVersion, AgentSpec]] = []
            for version in page:
                if version.agent is None:
                    continue
                spec = version.agent.spec
                if has_unknown_form(spec, self._forms):
                    unknown.add(spec.runner)
                if (values := self._plain(spec)) and (key_id := await self._current_key()) is not None:
                    sealed.append((version, self._with_sealed(key_id, version.key[0], spec, values)))

            def write(tx: Tx, done: list[tuple[StoredVersion, AgentSpec]] = sealed) -> int:
                return sum(agents.replace_version(tx, old, new) for old, new in done)

            count += await self._db.write(write) if sealed else 0
        self._unknown = frozenset(unknown)
        return count


def _place(workspace_id: str, entry: ModelEntry | AgentSpec, field: str) -> SecretPlace:
    if isinstance(entry, ModelEntry):
        return SecretPlace(workspace_id, "model", entry.id, field)
    return SecretPlace(workspace_id, "agent", entry.name, field)
