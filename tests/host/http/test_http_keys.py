"""Keys: who they belong to, what they open, how wrong ones are held off. Real keys in a real database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.domain.events import Caller
from hostler.http.admin_key import admin_key, read_admin_key
from hostler.http.auth import RIGHTS, KeyHolder, KeyRing, Right, find_key, has_right, require_right
from hostler.http.limits import FAILED_AUTH_BURST, KEY_CACHE_SECONDS, MAX_TOKEN_CHARS
from hostler.http.problems import UnauthenticatedError
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import api_keys
from hostler.storage.stores.api_keys import ApiKey
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError, UnauthorizedError

pytestmark = pytest.mark.gate("api-keys", "http-authentication")


class Clock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def ring(database: SqlDatabase, clock: Clock, admin: str | None = "the admin's key, any string") -> KeyRing:
    return KeyRing(
        find_key(database), admin_key=admin, workspace_id="w", clock=clock, now=lambda: clock.now * 1000
    )


async def make(database: SqlDatabase, **fields: object) -> tuple[ApiKey, str]:
    wanted: dict[str, object] = {"name": "k", "subject": "ada", "rights": ["runs:read"], **fields}
    return await database.write(lambda tx: api_keys.create(tx, "w", **wanted))  # type: ignore[arg-type]


async def ask(on: KeyRing, token: str, address: str = "10.0.0.1") -> KeyHolder:
    return await on.authenticate(f"Bearer {token}", address)


async def test_a_key_opens_what_it_was_made_for(database: SqlDatabase) -> None:
    key, token = await make(database, roles=["admin"], plugin="acme/echo")
    holder = await ask(ring(database, Clock()), token)
    assert holder.caller == Caller(
        "w", "ada", key.key_id, roles=frozenset({"admin"}), rights=frozenset({"runs:read"})
    )
    assert holder.plugin == "acme/echo"


async def test_the_admin_key_may_be_any_string(database: SqlDatabase) -> None:
    for key in ("x", "with blanks: and ünïcode", "k" * MAX_TOKEN_CHARS):
        holder = await ask(ring(database, Clock(), key), key)
        assert holder.caller.key_id == "admin"
        assert all(has_right(holder.caller, right) for right in RIGHTS)  # type: ignore[arg-type]
    with pytest.raises(UnauthenticatedError):
        await ask(ring(database, Clock(), None), "")


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer nonsense", "Bearer " + "x" * 600]
)
async def test_without_a_valid_key_nobody_is_let_in(database: SqlDatabase, header: str | None) -> None:
    with pytest.raises(UnauthenticatedError):
        await ring(database, Clock()).authenticate(header, "10.0.0.1")


async def test_a_revoked_key_is_refused_at_once_here_and_soon_elsewhere(database: SqlDatabase) -> None:
    clock = Clock()
    here, elsewhere = ring(database, clock), ring(database, clock)
    key, token = await make(database)
    await ask(here, token)
    await ask(elsewhere, token)
    assert await database.write(lambda tx: api_keys.revoke(tx, "w", key.key_id))
    here.forget(key.key_id)
    with pytest.raises(UnauthenticatedError):
        await ask(here, token)
    await ask(elsewhere, token)  # what it remembers is some seconds old at most
    clock.now += KEY_CACHE_SECONDS
    with pytest.raises(UnauthenticatedError):
        await ask(elsewhere, token)


async def test_a_key_revoked_while_it_is_looked_up_is_not_remembered(database: SqlDatabase) -> None:
    key, token = await make(database)
    looked_up, may_answer = asyncio.Event(), asyncio.Event()

    async def slowly(asked: str) -> KeyHolder | None:
        found = await find_key(database)(asked)
        looked_up.set()
        await may_answer.wait()
        return found

    on = KeyRing(slowly, admin_key=None, workspace_id="w")
    first = asyncio.create_task(on.authenticate(f"Bearer {token}", "a"))
    await looked_up.wait()
    await database.write(lambda tx: api_keys.revoke(tx, "w", key.key_id))
    on.forget(key.key_id)
    may_answer.set()
    await first
    with pytest.raises(UnauthenticatedError):
        await on.authenticate(f"Bearer {token}", "a")


async def test_an_expired_key_is_refused_also_while_it_is_remembered(database: SqlDatabase) -> None:
    clock = Clock()
    now = await database.read(lambda tx: tx.now)
    key, token = await make(database, expires_at=now + 3_600_000)
    assert key.expires_at is not None
    clock.now = (key.expires_at - 5) / 1000
    on = KeyRing(find_key(database), admin_key=None, workspace_id="w", clock=clock, now=clock)
    await ask(on, token)
    clock.now += 0.01
    with pytest.raises(UnauthenticatedError):
        await ask(on, token)


async def test_an_address_with_many_wrong_keys_has_to_wait(database: SqlDatabase) -> None:
    clock = Clock()
    on = ring(database, clock)
    _, token = await make(database)
    await ask(on, token)
    for number in range(int(FAILED_AUTH_BURST)):
        with pytest.raises(UnauthenticatedError):
            await ask(on, f"wrong-{number}")
    with pytest.raises(RateLimitedError) as refused:
        await ask(on, "wrong again")
    assert refused.value.retry_after > 0
    await ask(on, token)
    await ask(on, "the admin's key, any string")
    _, never_seen = await make(database)
    await ask(on, never_seen)  # those who send wrong keys may be behind the same proxy
    with pytest.raises(UnauthenticatedError):
        await ask(on, "wrong", address="10.0.0.2")
    clock.now += KEY_CACHE_SECONDS
    with pytest.raises(UnauthenticatedError):
        await ask(on, "wrong, later")


async def test_guesses_are_looked_up_one_at_a_time_and_hold_up_no_other_address(
    database: SqlDatabase,
) -> None:
    under_way, most, may_end = 0, 0, asyncio.Event()
    find = find_key(database)

    async def slow(token: str) -> KeyHolder | None:
        nonlocal under_way, most
        if token.startswith("wrong"):
            under_way += 1
            most = max(most, under_way)
            await may_end.wait()
            under_way -= 1
        return await find(token)

    on = KeyRing(slow, admin_key=None, workspace_id="w", clock=Clock())
    (_, token), (_, other) = await make(database), await make(database)
    may_end.set()
    for number in range(int(FAILED_AUTH_BURST)):
        with pytest.raises(UnauthenticatedError):
            await ask(on, f"wrong-{number}")
    may_end.clear()
    most = 0
    guesses = [asyncio.create_task(ask(on, f"wrong-{number}")) for number in range(20)]
    right = asyncio.create_task(ask(on, token))
    await ask(on, other, address="10.0.0.2")
    assert most == 1
    may_end.set()
    await right
    assert most == 1
    ends = await asyncio.gather(*guesses, return_exceptions=True)
    assert {type(end) for end in ends} == {RateLimitedError}


@pytest.mark.parametrize(
    ("rights", "right", "allowed"),
    [
        ({"runs:read"}, "runs:read", True),
        ({"runs:read"}, "runs:write", False),
        ({"admin"}, "runs:write", True),
        ({"admin"}, "installation", False),
        ({"installation"}, "admin", True),
        (set(), "runs:read", False),
    ],
)
def test_what_a_right_includes(rights: set[str], right: Right, allowed: bool) -> None:
    caller = Caller("w", "s", "k", rights=frozenset(rights))
    assert has_right(caller, right) is allowed
    if not allowed:
        with pytest.raises(UnauthorizedError, match=right):
            require_right(caller, right)


def test_the_admin_key_is_made_once_and_kept_privately(tmp_path: Path) -> None:
    made = admin_key(tmp_path, None)
    assert made.made
    assert (tmp_path / "admin.key").stat().st_mode & 0o777 == 0o600
    assert admin_key(tmp_path, None) == (made.key, False)
    assert read_admin_key(tmp_path) == made.key
    assert admin_key(tmp_path, "given") == ("given", False)
    assert read_admin_key(tmp_path) == made.key
    assert [path.name for path in tmp_path.iterdir()] == ["admin.key"]


@pytest.mark.parametrize("key", ["", " x", "x\n", "x" * (MAX_TOKEN_CHARS + 1)])
def test_an_admin_key_no_header_can_carry_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidArgumentError, match="HOSTLER_ADMIN_KEY"):
        admin_key(tmp_path, key)
