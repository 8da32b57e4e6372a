"""The store of secrets: sealed under the master key, named by `secret://NAME`, never shown.

Secrets of the installation are for the entries of the configuration; they are kept opened in memory, since
each use of an entry needs them. Secrets of a workspace are for its agents; they are opened when a run starts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from hostler.domain.clock import monotonic_clock
from hostler.domain.secret_refs import name_mistake
from hostler.domain.stored_secrets import SecretOwner, reference_to, value_mistake
from hostler.secrets.key_ring import KeyRing, KeyRingError, LiveKeyRing, new_key, open_sealed, seal
from hostler.secrets.known_values import remember
from hostler.secrets.resolver import SecretUnreadableError
from hostler.secrets.stored import OpenedSecret, StoredSecrets, Use, missing_secret
from hostler.storage.port import Database, Tx
from hostler.storage.stores import audit, installation, secrets
from hostler.storage.stores.secrets import SealedSecret, SecretFacts
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError, StorageError
from hostler_protocol.ids import canonical_json

log = logging.getLogger(__name__)

NO_MASTER_KEY = (
    "secrets are stored encrypted, and no `master_key` is configured: `openssl rand -base64 32` makes a key, "
    "`hostler config set master_key 'keys=[\"file:/path/of/it\"]'` names it"
)
NO_KEY_NOW = "no `master_key` is configured, which would open it"
REWRAP_PAGE = 100
"""Secrets whose keys are wrapped anew in one transaction."""
USE_SECONDS = 3600.0
"""How long further uses of a secret by the same entry are part of the first one's audit fact."""
MAX_TOLD_USES = 10_000
"""Uses that are remembered as audited; when there are more, all are forgotten, and perhaps audited again."""
_WRAP, _VALUE = "key", "value"

Users = Callable[[Tx, str, SecretOwner], Mapping[str, Sequence[str]]]
"""Return the places that refer to secrets of an owner, by the name of the secret."""
Write = Callable[[Tx], None]


class SecretStore:
    """The store of one installation. `users` finds who refers to a secret."""

    def __init__(self, db: Database, workspace_id: str, key_ring: LiveKeyRing, users: Users) -> None:
        self._db = db
        self._workspace = workspace_id
        self._key_ring = key_ring
        self._users = users
        self.own = StoredSecrets()
        """The secrets of the installation, opened."""
        self.on_changed: Callable[[frozenset[str]], Awaitable[None]] = _nobody
        """Called with the names of the installation's secrets that have changed."""
        self._revision: bytes | None = None
        self._told: dict[Use, float] = {}
        """When uses were audited last."""
        self._wrapped_by: KeyRing | None = None
        self.own.is_audited = self._is_told

    # -- by people --------------------------------------------------------------------------------

    async def set(
        self,
        workspace_id: str,
        owner: SecretOwner,
        name: str,
        value: str,
        actor: str,
        *,
        existing: bool | None = None,
        also: Write = lambda _: None,
    ) -> SecretFacts:
        """Store a secret, or a new value of it, which is used from the next use on.

        `existing`: whether there must be one of this name (None: either way), otherwise NotFoundError or
        ConflictError. `also` is written in the same transaction. InvalidArgumentError for a wrong name or
        value, or without a master key; KeyRingError if that cannot be read.
        """
        for mistake in (name_mistake(name), value_mistake(value)):
            if mistake is not None:
                raise InvalidArgumentError(mistake)
        ring = self._key_ring.ring
        if ring is None:
            raise InvalidArgumentError(NO_MASTER_KEY)
        remember(value)
        data_key = new_key()
        made = SealedSecret(
            workspace_id,
            owner,
            name,
            0,
            ring.wrap(_bound(_WRAP, workspace_id, owner, name), data_key),
            seal(data_key, _bound(_VALUE, workspace_id, owner, name), value.encode()),
        )

        def write(tx: Tx) -> SecretFacts:
            is_known = secrets.find(tx, workspace_id, owner, name) is not None
            if existing is True and not is_known:
                raise NotFoundError(f"there is no secret {name!r}")
            if existing is False and is_known:
                raise ConflictError(f"there is a secret {name!r} already")
            version = secrets.put(tx, made, actor)
            action = "secret.added" if version == 1 else "secret.changed"
            audit.record(tx, workspace_id, actor, action, name, {"owner": owner, "version": version})
            also(tx)
            _changed(tx, owner)
            facts = secrets.find(tx, workspace_id, owner, name)
            assert facts is not None
            return facts

        facts = await self._db.write(write, synced=True)
        await self._follow(owner)
        return facts

    async def remove(
        self, workspace_id: str, owner: SecretOwner, name: str, actor: str, *, force: bool
    ) -> None:
        """Remove a secret. NotFoundError; ConflictError if something refers to it, unless `force`."""

        def write(tx: Tx) -> None:
            facts = secrets.find(tx, workspace_id, owner, name)
            if facts is None:
                raise NotFoundError(f"there is no secret {name!r}")
            users = self._users(tx, workspace_id, owner).get(name, ())
            if users and not force:
                raise ConflictError(f"secret {name!r} is in use: {'; '.join(users)}", users=list(users))
            secrets.delete(tx, workspace_id, owner, name)
            body = {"owner": owner, "version": facts.version}
            audit.record(tx, workspace_id, actor, "secret.removed", name, body)
            _changed(tx, owner)

        await self._db.write(write, synced=True)
        await self._follow(owner)

    async def page(
        self, workspace_id: str, owner: SecretOwner, after: str, limit: int
    ) -> tuple[list[SecretFacts], Mapping[str, Sequence[str]]]:
        """Return secrets by name, and the places that refer to them."""
        return await self._db.read(
            lambda tx: (
                secrets.page(tx, workspace_id, owner, after=after, limit=limit),
                self._users(tx, workspace_id, owner),
            )
        )

    async def users(self, workspace_id: str, owner: SecretOwner) -> Mapping[str, Sequence[str]]:
        """Return the places that refer to secrets, by the name of the secret."""
        return await self._db.read(lambda tx: self._users(tx, workspace_id, owner))

    async def known(self, workspace_id: str, owner: SecretOwner) -> Mapping[str, str | None]:
        """Return why secrets cannot be opened, or None for those that can, by name."""
        keys = await self._db.read(lambda tx: secrets.key_ids(tx, workspace_id, owner))
        return {name: self._why_closed(key_id) for name, key_id in keys.items()}

    def _why_closed(self, key_id: str) -> str | None:
        try:
            ring = self._key_ring.ring
        except KeyRingError as error:
            return error.message
        if ring is None:
            return NO_KEY_NOW
        return None if key_id in ring.ids else f"none of the keys opens it: it is under key {key_id}"

    # -- by runs ----------------------------------------------------------------------------------

    async def for_run(self, workspace_id: str, names: Sequence[str], run_id: str) -> Mapping[str, str]:
        """Return the values of secrets of a workspace for a run, which is audited first.

        SecretUnreadableError names one that is missing or cannot be opened.
        """

        def use(tx: Tx) -> dict[str, str]:
            found: dict[str, str] = {}
            for name in names:
                secret = secrets.sealed(tx, workspace_id, "workspace", name)
                if secret is None:
                    raise SecretUnreadableError(missing_secret(name, "workspace"))
                opened = self._opened(secret)
                if opened.value is None:
                    raise SecretUnreadableError(f"{reference_to(name)}: {opened.problem}")
                found[name] = opened.value
                _record_use(tx, (workspace_id, "workspace", name), secret.version, f"run {run_id}")
            return found

        values = await self._db.write(use)
        for value in values.values():
            remember(value)
        return values

    # -- by entries -------------------------------------------------------------------------------

    async def load(self) -> frozenset[str]:
        """Open the installation's secrets as they are now; return the names of those that changed."""
        revision, found = await self._db.read(
            lambda tx: (
                installation.secrets_revision(tx),
                secrets.all_sealed(tx, self._workspace, "installation"),
            )
        )
        self._revision = revision
        return self.own.replace({secret.name: self._opened(secret) for secret in found})

    async def follow(self) -> None:
        """Open the installation's secrets anew if they have changed, also by another host."""
        if await self._db.read(installation.secrets_revision, brief=True) != self._revision:
            await self._load_and_tell()

    async def note_uses(self) -> None:
        """Audit what entries have used: once in an hour for each secret, value and entry."""
        now = monotonic_clock()
        taken = self.own.take_uses()
        uses = [use for use in taken if not self._is_told(use)]
        if not uses:
            return

        def write(tx: Tx) -> None:
            for name, user, version in uses:
                _record_use(tx, (self._workspace, "installation", name), version, user)

        try:
            await self._db.write(write)
        except (StorageError, asyncio.CancelledError):  # the latter may have been written: better twice
            self.own.return_uses(taken)
            raise
        if len(self._told) > MAX_TOLD_USES:
            self._told.clear()
        self._told.update(dict.fromkeys(uses, now))

    def _is_told(self, use: Use) -> bool:
        return monotonic_clock() - self._told.get(use, -USE_SECONDS) < USE_SECONDS

    # -- keys -------------------------------------------------------------------------------------

    async def rewrap(self) -> int:
        """Wrap the keys of all secrets with the current master key; return how many were under another one.

        Those that no key opens stay as they are.
        """
        if self._key_ring.locked is not None or (ring := self._key_ring.ring) in {None, self._wrapped_by}:
            return 0
        assert ring is not None
        after, rewrapped, lost = ("", "", ""), 0, 0
        current = bytes.fromhex(ring.current_id)
        while True:
            last = after
            stale = await self._db.read(
                lambda tx, last=last: secrets.wrapped_by_others(  # type: ignore[misc]
                    tx, current, after=last, limit=REWRAP_PAGE
                )
            )
            if not stale:
                break
            after = (stale[-1].workspace_id, stale[-1].owner, stale[-1].name)
            wrapped = [(secret, self._rewrapped(ring, secret)) for secret in stale]
            lost += sum(key is None for _, key in wrapped)
            rewrapped += await self._db.write(
                lambda tx, wrapped=wrapped: sum(  # type: ignore[misc]
                    secrets.rewrap(tx, secret, key) for secret, key in wrapped if key is not None
                )
            )
        self._wrapped_by = ring
        if rewrapped:
            log.info("the keys of %d secrets are under the current master key now", rewrapped)
        if lost:
            log.warning("%d secrets are under a master key that is not configured", lost)
        return rewrapped

    def _rewrapped(self, ring: KeyRing, secret: SealedSecret) -> bytes | None:
        bound = _bound(_WRAP, secret.workspace_id, secret.owner, secret.name)
        try:
            return ring.rewrap(bound, secret.data_key)
        except KeyRingError:
            return None

    def _opened(self, secret: SealedSecret) -> OpenedSecret:
        place = (secret.workspace_id, secret.owner, secret.name)
        try:
            ring = self._key_ring.ring
            if ring is None:
                return OpenedSecret(secret.version, None, NO_KEY_NOW)
            data_key = ring.unwrap(_bound(_WRAP, *place), secret.data_key)
            value = open_sealed(data_key, _bound(_VALUE, *place), secret.value).decode()
        except KeyRingError as error:
            return OpenedSecret(secret.version, None, error.message)
        return OpenedSecret(secret.version, value)

    async def _follow(self, owner: SecretOwner) -> None:
        if owner == "installation":
            await self._load_and_tell()

    async def _load_and_tell(self) -> None:
        if changed := await self.load():
            await self.on_changed(changed)


async def _nobody(_changed: frozenset[str]) -> None:
    pass


def _changed(tx: Tx, owner: SecretOwner) -> None:
    if owner == "installation":
        installation.change_secrets_revision(tx)


def _record_use(tx: Tx, whose: tuple[str, SecretOwner, str], version: int, user: str) -> None:
    ws, owner, name = whose
    secrets.mark_used(tx, ws, owner, name, user)
    body = {"owner": owner, "version": version, "by": user}
    audit.record(tx, ws, "host", "secret.used", name, body)


def _bound(use: str, workspace_id: str, owner: str, name: str) -> bytes:
    return canonical_json(["hostler secret", use, workspace_id, owner, name])
