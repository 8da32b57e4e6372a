"""The transaction of an installation that seals: values of content columns are sealed on their way into a
statement and opened on their way out of its rows. Stores do not know.

A data key is made with the first value of its event, run or journal, in the same transaction. Keys are kept
in memory only after the commit: work of a group that is rolled back has made none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hostler.secrets.key_ring import KeyRingError, wrapped_by
from hostler.storage.port import Query, Row, Tx
from hostler.storage.sealing.columns import LABELS, TRIVIAL, bucket_of, conversation_group, named_by
from hostler.storage.sealing.envelope import DataKey, KeyMissingError, SealedError, key_id_in, new_data_key
from hostler.storage.sealing.keyring import NO_WORKSPACE, WORKSPACE, Change, Sealer
from hostler.storage.sealing.plans import Plan, plan_of
from hostler.storage.sql.session import OpenTx, Session, SessionTx
from hostler.storage.sql.statements import load
from hostler_protocol.ids import canonical_json

_STEP_KEYS = 500
TOKEN_BYTES = 10
"""80 bits of a token's digest: two words of a conversation never share one."""
_q = load(__file__.replace("tx.py", "keys.py"))
_VERSION = Query("sealing.version", "PRAGMA data_version", "")
"""SQLite: changes when another connection has written: a command, while a server runs."""
_PLACES = {"run": _q.place_of_run, "journal": _q.place_of_run, "event": _q.place_of_event}
_PLACES |= {"pause": _q.place_of_pause}
_plans: dict[str, Plan | None] = {}
_sealed_names: dict[tuple[str, ...], tuple[str, ...]] = {}


class SealingTx(SessionTx):
    """A `Tx` that seals and opens."""

    __slots__ = ("_sealer", "_writes", "change")
    seals = True

    def __init__(self, session: Session, now: int, sealer: Sealer, *, writes: bool) -> None:
        super().__init__(session, now)
        self._sealer = sealer
        self._writes = writes
        self.change = Change()
        if writes and not sealer.shared:
            version = super().one(_VERSION)
            sealer.look_at(0 if version is None else int(version["data_version"]))

    def committed(self) -> None:
        """Keep the keys that were opened and made in memory."""
        if not self._writes:
            # a snapshot may be older than the end of a key: nothing new may be sealed with what it found
            self.change.named.clear()
        self._sealer.keep(self.change)

    # -- statements -----------------------------------------------------------------------------------------

    def run(self, query: Query, *row: Any, **params: Any) -> int:
        """Execute with sealed values and return the number of changed rows."""
        plan = _plan(query)
        if plan is None:
            return super().run(query, *row, **params)
        named = dict(zip(query.names, row, strict=True)) if row else params
        return super().run(query, **self._sealed(plan, named))

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute once per row of parameters."""
        plan = _plan(query)
        super().run_many(query, rows if plan is None else (self._sealed(plan, row) for row in rows))

    def run_rows(self, query: Query, rows: Iterable[Sequence[Any]]) -> None:
        """Execute once per row, its parameters in the order of `query.names`."""
        plan = _plan(query)
        if plan is None:
            super().run_rows(query, rows)
            return
        names = query.names
        # all before the first is executed: sealing may execute statements of its own
        sealed = [self._sealed(plan, dict(zip(names, row, strict=True))) for row in rows]
        super().run_rows(query, [[row[name] for name in names] for row in sealed])

    def one(self, query: Query, **params: Any) -> Row | None:
        """Return the first row, opened, or None."""
        plan = _plan(query)
        row = super().one(query, **(params if plan is None else self._sealed(plan, params)))
        return None if row is None else self._opened([row])[0]

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Return all rows, opened."""
        plan = _plan(query)
        return self._opened(super().all(query, **(params if plan is None else self._sealed(plan, params))))

    def stored(self, query: Query, **params: Any) -> list[Row]:
        """Return all rows as they are stored."""
        return super().all(query, **params)

    def blinded(self, workspace_id: str, conversation_id: str, tokens: Iterable[str]) -> list[str] | None:
        """Return what stands for tokens in the text index; None if nothing of the conversation is sealed."""
        name = f"search:{conversation_id}"
        if not self._writes and not self.exists(workspace_id, name):
            return None
        key = self.key_named(workspace_id, name, conversation_id)
        return [
            key.digest(b"token\0" + token.encode("utf-8", "surrogatepass"))[:TOKEN_BYTES].hex()
            for token in tokens
        ]

    def keyed(self, workspace_id: str, name: str, digest: str, conversation_id: str | None = None) -> str:
        """Return a digest that only the key of this name can make."""
        return "keyed:" + self.key_named(workspace_id, name, conversation_id).digest(digest.encode()).hex()

    # -- values ---------------------------------------------------------------------------------------------

    def _sealed(self, plan: Plan, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters with the values of sealed columns sealed; an absent or empty one stays."""
        found = dict(params)
        key: DataKey | None = None
        for param, column in plan.sealed.items():
            value = params[param]
            if value is None or value in TRIVIAL:
                continue
            if key is None:
                key = self._key_of(plan, params)
            plain = bytes(value) if isinstance(value, bytearray | memoryview) else value
            found[param] = key.seal(LABELS[column], plain, plan.table.columns[column])
        return found

    def _key_of(self, plan: Plan, params: Mapping[str, Any]) -> DataKey:
        row = {column: params[param] for column, param in plan.columns.items()}
        leaf = plan.table.leaf_of(row)
        if leaf is None:
            raise RuntimeError(f"a statement on {plan.table.name} does not say whose row it writes")
        workspace_id, conversation_id = row.get("workspace_id"), row.get("conversation_id")
        if workspace_id is None:
            raise RuntimeError(f"a statement on {plan.table.name} does not name the workspace")
        return self.key_named(workspace_id, leaf[1], conversation_id)

    def _opened(self, rows: list[Row]) -> list[Row]:
        """Open the sealed values of rows, in place; keys that are not known are read together."""
        if not rows:
            return rows
        columns = _columns(rows[0])
        if not columns:
            return rows
        found: list[tuple[Any, str, str]] = []
        wanted: dict[str, None] = {}
        for row in rows:
            for column in columns:
                key_id = key_id_in(row[column])
                if key_id is not None:
                    found.append((row, column, key_id))
                    if self._known(key_id) is None:
                        wanted[key_id] = None
        if wanted:
            self._load(list(wanted))
        for row, column, key_id in found:
            key = self._known(key_id)
            if key is None:
                raise SealedError(f"a stored {column} was erased: its key {key_id} exists no longer")
            row[column] = key.open(LABELS[column], row[column])
        return rows

    # -- keys -----------------------------------------------------------------------------------------------

    def key_named(self, workspace_id: str, name: str, conversation_id: str | None = None) -> DataKey:
        """Return the key that new values are sealed with; a writing transaction makes it if there is none."""
        place = (workspace_id, name)
        known = self.change.named.get(place) or self._sealer.named(workspace_id, name)
        if known is not None and known.key_id not in self.change.destroyed:
            return known
        query = _q.held if self._writes and self._sealer.shared else _q.by_name
        row = super().one(query, workspace_id=workspace_id, name=name)
        key = self.open_row(row) if row is not None else self._made(workspace_id, name, conversation_id)
        self.change.named[place] = key
        return key

    def key_of(self, key_id: str) -> DataKey | None:
        """Return the key of this id, or None."""
        if self._known(key_id) is None:
            self._load([key_id])
        return self._known(key_id)

    def adopt(self, name: str, key: object) -> None:
        """Store the key of a blob, whose bytes are sealed already; nothing for one that is stored."""
        if key is None and super().one(_q.by_name, workspace_id=NO_WORKSPACE, name=name) is not None:
            return
        if not isinstance(key, DataKey):
            raise SealedError(f"the bytes of {name} are not sealed, though content is: store them again")
        parent = self.key_named(NO_WORKSPACE, bucket_of("blob", name))
        if self._added(key, NO_WORKSPACE, name, parent).key_id != key.key_id:
            raise RuntimeError(f"there are two keys {name!r}")

    def destroy(self, workspace_id: str, name: str) -> bool:
        """Destroy the data key of this name, and retire the keys above it; return whether there was one."""
        row = super().one(_q.by_name, workspace_id=workspace_id, name=name)
        return row is not None and self.destroy_key(row["key_id"])

    def destroy_key(self, key_id: str) -> bool:
        """Destroy a data key. Whatever it sealed can be opened once more only from old copies of the tree,
        until the retired keys above it are replaced (`sealing.erasing`).
        """
        row = super().one(_q.held_alone, key_id=key_id)
        if row is None:
            return False
        super().run(_q.destroy, key_id=key_id)
        self.change.destroyed.add(key_id)
        while row is not None and (above := row["parent_id"]) is not None:
            super().run(_q.retire, key_id=above)
            self.change.destroyed.add(above)  # nothing new may be wrapped by it
            row = super().one(_q.held_alone, key_id=above)
        gone = self.change.destroyed
        self.change.named = {place: key for place, key in self.change.named.items() if key.key_id not in gone}
        return True

    def retire(self, key_id: str) -> bool:
        """Let a key of its name take its place from now on; return whether it is there, in use.

        What it wraps is moved by `sealing.erasing`.
        """
        if super().one(_q.held_alone, key_id=key_id) is None or not super().run(_q.retire, key_id=key_id):
            return False
        self.change.destroyed.add(key_id)  # nothing new may be wrapped by it
        self.change.named = {place: key for place, key in self.change.named.items() if key.key_id != key_id}
        return True

    def exists(self, workspace_id: str, name: str) -> bool:
        """Whether there is a key of this name."""
        if (workspace_id, name) in self.change.named or self._sealer.named(workspace_id, name) is not None:
            return True
        return super().one(_q.by_name, workspace_id=workspace_id, name=name) is not None

    def _made(self, workspace_id: str, name: str, conversation_id: str | None) -> DataKey:
        if not self._writes:
            raise SealedError(f"there is no key {name!r} in workspace {workspace_id!r}")
        parent: DataKey | None = None
        if name != WORKSPACE:
            above = self._group_of(workspace_id, name, conversation_id)
            parent = self.key_named(workspace_id, above)
        else:
            self.check_erasure_key()
        return self._added(new_data_key(), workspace_id, name, parent)

    def check_erasure_key(self) -> None:
        """Check that this host wraps keys of workspaces with the erasure key of all hosts. SealedError."""
        row = super().one(_q.erasure_key)
        if row is None or not self._sealer.wraps_with(bytes(row["value"]).decode()):
            raise SealedError("nothing is sealed, and so nothing stored: the erasure key is another one")

    def _added(self, key: DataKey, workspace_id: str, name: str, parent: DataKey | None) -> DataKey:
        """Store a new key; return the one of this name that another host stored first, if it did."""
        try:
            wrapped = self._sealer.wrap(key, workspace_id, parent)
        except KeyRingError as error:
            raise SealedError(f"nothing can be sealed, so nothing is stored: {error.message}") from error
        row = {
            "key_id": key.key_id,
            "workspace_id": workspace_id,
            "parent_id": None if parent is None else parent.key_id,
            "name": name,
            "wrapped": wrapped,
        }
        if super().run(_q.insert, **row, now=self.now):
            self.change.opened[key.key_id] = key
            return key
        found = super().one(_q.held, workspace_id=workspace_id, name=name)
        if found is None:
            raise RuntimeError(f"the key {name!r} is neither new nor known")
        return self.open_row(found)

    def _group_of(self, workspace_id: str, name: str, conversation_id: str | None) -> str:
        """Return the name of the key that wraps a new key: that of its conversation, if it belongs to one."""
        kind, values = named_by(name)
        if kind == "conversation" or "#" in kind:
            return WORKSPACE
        if conversation_id is None and kind in _PLACES:
            query = _PLACES[kind]
            scope = {"workspace_id": workspace_id} if "workspace_id" in query.names else {}
            row = super().one(query, id=values[0], **scope)
            conversation_id = None if row is None else row["conversation_id"]
        return bucket_of(kind, name) if conversation_id is None else conversation_group(conversation_id)

    def _known(self, key_id: str) -> DataKey | None:
        return self.change.opened.get(key_id) or self._sealer.known(key_id)

    def _load(self, key_ids: Sequence[str]) -> None:
        """Open keys by their ids, those above them first."""
        rows = super().all(_q.by_ids, key_ids=canonical_json(list(key_ids)).decode())
        above = {row["parent_id"] for row in rows if row["parent_id"] is not None}
        missing = [key_id for key_id in above if self._known(key_id) is None]
        if missing:
            self._load(missing)
        for row in rows:
            self.open_row(row)

    def open_row(self, row: Row) -> DataKey:
        """Open a stored key, given as its row."""
        known = self._known(row["key_id"])
        if known is not None:
            return known
        parent: DataKey | None = None
        if row["parent_id"] is not None:
            parent = self._known(row["parent_id"])
            if parent is None:
                self._load([row["parent_id"]])
                parent = self._known(row["parent_id"])
            if parent is None:
                raise SealedError(f"the key above key {row['key_id']} exists no longer")
        key = self._sealer.unwrap(row, parent)
        self.change.opened[key.key_id] = key
        return key


def _plan(query: Query) -> Plan | None:
    text = query.sqlite or query.postgres
    try:
        return _plans[text]
    except KeyError:
        plan = _plans[text] = plan_of(query)
        return plan


def _columns(row: Row) -> tuple[str, ...]:
    """Return the columns of a result that may be sealed."""
    names = tuple(row)
    try:
        return _sealed_names[names]
    except KeyError:
        found = _sealed_names[names] = tuple(name for name in names if name in LABELS)
        return found


class LockedTx(SessionTx):
    """A transaction of an installation whose keys cannot be read: it opens nothing that is sealed, and stores
    no content in the clear instead.
    """

    __slots__ = ("_why",)
    seals = True

    def __init__(self, session: Session, now: int, why: str) -> None:
        super().__init__(session, now)
        self._why = why

    def run(self, query: Query, *row: Any, **params: Any) -> int:
        """Execute a statement without content; SealedError for another."""
        self._refuse(query, dict(zip(query.names, row, strict=True)) if row else params)
        return super().run(query, *row, **params)

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute a statement without content; SealedError for another."""
        given = list(rows)
        for row in given:
            self._refuse(query, row)
        super().run_many(query, given)

    def run_rows(self, query: Query, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement without content; SealedError for another."""
        given = list(rows)
        for row in given:
            self._refuse(query, dict(zip(query.names, row, strict=True)))
        super().run_rows(query, given)

    def one(self, query: Query, **params: Any) -> Row | None:
        """Return the first row. SealedError if it has a sealed value."""
        self._refuse(query, params)
        row = super().one(query, **params)
        self._check([] if row is None else [row])
        return row

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Return all rows. SealedError if one has a sealed value."""
        self._refuse(query, params)
        rows = super().all(query, **params)
        self._check(rows)
        return rows

    def blinded(self, workspace_id: str, conversation_id: str, tokens: Iterable[str]) -> list[str] | None:
        """SealedError."""
        raise KeyMissingError(f"content is sealed, and {self._why}")

    def keyed(self, workspace_id: str, name: str, digest: str, conversation_id: str | None = None) -> str:
        """Return the digest of an audit fact, which holds no content here; SealedError for another.

        The change that gives the key back is a fact itself.
        """
        if not name.startswith("audit:"):
            raise KeyMissingError(f"content is sealed, and {self._why}")
        return digest

    def _refuse(self, query: Query, params: Mapping[str, Any]) -> None:
        plan = _plan(query)
        if plan is None:
            return
        values = [params[param] for param in plan.sealed]
        if any(value is not None and value not in TRIVIAL for value in values):
            raise KeyMissingError(f"nothing is stored: content is sealed here, and {self._why}")

    def _check(self, rows: list[Row]) -> None:
        if any(key_id_in(row[column]) for row in rows for column in _columns(row)):
            raise KeyMissingError(f"content is sealed, and {self._why}")


def sealing(sealer: Sealer) -> OpenTx:
    """Return how transactions are made that seal and open content."""
    return lambda session, now, writes: SealingTx(session, now, sealer, writes=writes)


def locked(why: str) -> OpenTx:
    """Return how transactions are made while the keys cannot be read. `why` goes on a sentence."""
    return lambda session, now, _: LockedTx(session, now, why)


def has_sealed(tx: Tx) -> bool:
    """Whether this database holds keys that seal content."""
    return tx.one(_q.any) is not None


def workspace_key_uses(tx: Tx) -> dict[str, int]:
    """Return how many keys of workspaces each master key wraps, by the id of the master key."""
    uses: dict[str, int] = {}
    after = ""
    while rows := tx.all(_q.of_workspaces, after=after, limit=_STEP_KEYS):
        for row in rows:
            key_id = wrapped_by(bytes(row["wrapped"])).hex()
            uses[key_id] = uses.get(key_id, 0) + 1
        after = rows[-1]["key_id"]
    return uses
