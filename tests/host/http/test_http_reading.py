"""What a command reads of a data directory without a host is what the host would answer, byte for byte."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hostler.cli.in_process import InProcessTransport
from hostler.cli.transport import HttpReply, HttpRequest
from hostler.domain.agents import AgentSpec
from hostler.host.config import ConfigFile
from hostler.host.data_directory import NOTE_NAME
from hostler.host.read_only import ReadOnlyHost
from hostler.storage.sql.migrate import newest_schema
from hostler.storage.sql.read_only import open_for_reading
from hostler.storage.stores import installation
from hostler_protocol.errors import HostlerError
from support.command_line import EXAMPLES
from support.databases import run
from support.http_host import WORKSPACE, serving
from support.trust import trusted

LISTS = ["runs", "pauses", "keys", "audit", "events", "inbox"]
WRONG = ["runs?status=none", "runs?limit=x", "runs?limit=1&limit=2", "runs?cursor=no", "runs/%ff", "runs/%00"]
MISSING = ["runs/none", "runs/none/journal", "pauses/none", "events/none"]
ELSEWHERE = ["runs/a/b/c", "agents", "agents/none", "plugins", "problems", "nothing"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A data directory whose host has ended, with runs that completed, failed and wait; and their ids."""
    folder = tmp_path_factory.mktemp("filled")
    shutil.copytree(
        EXAMPLES / "shop", folder / "shop", ignore=shutil.ignore_patterns("*.sqlite3", "__pycache__")
    )

    async def fill() -> dict[str, str]:
        async with serving(folder / "data", hold_seconds=0.2) as served:
            spec = AgentSpec(name="clerk", runner="plugin:acme/shop/default", config={"tools": ["shop.*"]})
            await served.host.apply(
                ConfigFile(plugins=[trusted(folder / "shop")], agents=[spec]), actor="test"
            )
            ended = await served.say("say 3", agent="puppet")
            await served.say("fail", agent="puppet")
            refund = 'shop.refund {"receipt": "R1"}'
            waiting = await served.say(refund, agent="clerk", conversation_id="c1")
            await served.key(WORKSPACE, "runs:read")
            pauses = (await served.client.get("/v1/pauses")).json()["items"]
            return {
                "since": str(int(time.time()) - 1_800),
                "run": ended["run_id"],
                "waiting": waiting["run_id"],
                "event": ended["event_id"],
                "pause": pauses[0]["id"],
            }

    return folder / "data", run(fill())


async def asked(data: Path, path: str) -> tuple[HttpReply, HttpReply, bool]:
    """The answers without and with a host, and whether the first needed none."""
    light, whole = InProcessTransport(data, None), InProcessTransport(data, None)

    def request(wire: InProcessTransport) -> HttpRequest:
        return HttpRequest("GET", f"/v1/{path}", {"authorization": f"Bearer {wire.key}"}, b"", 60.0)

    try:
        found = await light.send(request(light))
        needed_none = light._app is None
    finally:
        await light.close()
    try:
        async with whole.stream(request(whole)) as answer:
            body = b"\n".join([line async for line in answer.lines])
            return found, HttpReply(answer.status, answer.reason, body), needed_none
    finally:
        await whole.close()


def paths(ids: dict[str, str]) -> list[tuple[str, bool]]:
    """What is asked, and whether a host is not needed for it."""
    own = [
        f"runs/{ids['run']}",
        f"runs/{ids['waiting']}",
        f"runs/{ids['waiting']}/steering",
        f"runs/{ids['run']}/journal?limit=3",
        f"pauses/{ids['pause']}",
        f"events/{ids['event']}",
        "runs?status=completed&status=paused",
        "runs?agent=clerk&order=asc",
        f"usage?since={ids['since']}&until={int(ids['since']) + 3_600}",
    ]
    return [
        (path, True) for path in (*LISTS, *(f"{one}?limit=1" for one in LISTS), *own, *WRONG, *MISSING)
    ] + [(path, False) for path in ELSEWHERE]


async def test_every_answer_is_the_host_s(filled: tuple[Path, dict[str, str]]) -> None:
    data, ids = filled
    for path, is_light in paths(ids):
        light, whole, needed_none = await asked(data, path)
        assert (light.status, light.body) == (whole.status, whole.body), path
        assert needed_none is is_light, path


async def test_pages_go_on_with_the_host_s_cursors(filled: tuple[Path, dict[str, str]]) -> None:
    data, _ = filled

    async def body() -> None:
        light, whole, _ = await asked(data, "runs?limit=1")
        cursors = [json.loads(reply.body)["next_cursor"] for reply in (light, whole)]
        assert all(cursors)
        for cursor in cursors:
            first, second, needed_none = await asked(data, f"runs?limit=1&cursor={cursor}")
            assert (first.status, first.body, needed_none) == (200, second.body, True)

    await body()


async def test_what_reads_cannot_write(filled: tuple[Path, dict[str, str]]) -> None:
    db = open_for_reading(filled[0] / "hostler.db")
    assert db is not None
    with pytest.raises(HostlerError, match="readonly"):
        await db.read(lambda tx: installation.key(tx, "another"))
    await db.close()


async def test_a_log_that_no_host_folded_in_is_read(
    filled: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    """As after a power cut: the last commits are in the log alone, and its end is torn."""
    data, ids = filled
    source = tmp_path / "source.db"
    shutil.copy(data / "hostler.db", source)
    with closing(sqlite3.connect(source)) as writer:
        writer.execute("PRAGMA wal_autocheckpoint=0")
        writer.execute("UPDATE runs SET status = 'cancelled' WHERE run_id = ?", [ids["run"]])
        writer.commit()
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        shutil.copy(source, crashed / "hostler.db")
        log = source.with_name("source.db-wal").read_bytes()
    (crashed / "hostler.db-wal").write_bytes(log + b"\x07" * 2_000)
    light, whole, needed_none = await asked(crashed, f"runs/{ids['run']}")
    assert b'"status":"cancelled"' in light.body
    assert (light.body, needed_none) == (whole.body, True)


def _newer(data: Path) -> None:
    with closing(sqlite3.connect(data / "hostler.db")) as db:
        number = newest_schema("sqlite") + 1
        db.execute("INSERT INTO schema_versions VALUES (?, 'later', '99.0.0', 0)", [number])
        db.commit()


def _of_another_database(data: Path) -> None:
    (data / NOTE_NAME).write_text('{"address": "postgresql://db/hostler", "installation": "aa"}')


def _no_database(data: Path) -> None:
    (data / "hostler.db").write_bytes(b"no database at all" * 1_000)


@pytest.mark.parametrize("spoil", [_newer, _of_another_database, _no_database])
async def test_a_directory_that_a_host_refuses_is_refused_with_its_words(
    filled: tuple[Path, dict[str, str]], tmp_path: Path, spoil: Any
) -> None:
    data = tmp_path / "data"
    shutil.copytree(filled[0], data, ignore=shutil.ignore_patterns("*.sock"))
    spoil(data)

    async def told(*, light: bool) -> str:
        wire = InProcessTransport(data, None)
        request = HttpRequest("GET", "/v1/runs", {"authorization": f"Bearer {wire.key}"}, b"", 60.0)
        try:
            if light:
                await wire.send(request)
            else:
                async with wire.stream(request):
                    pass
        except HostlerError as error:
            return error.message
        finally:
            await wire.close()
        pytest.fail("it was not refused")

    assert await told(light=True) == await told(light=False)


async def test_a_directory_that_is_not_this_build_s_is_left_to_a_host(
    filled: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    assert await ReadOnlyHost.open(tmp_path) is None
    assert not any(tmp_path.iterdir())
    shutil.copy(filled[0] / "hostler.db", tmp_path)
    with closing(sqlite3.connect(tmp_path / "hostler.db")) as db:
        db.execute("DELETE FROM schema_versions WHERE number = ?", [newest_schema("sqlite")])
        db.commit()
    before = (tmp_path / "hostler.db").read_bytes()
    assert await ReadOnlyHost.open(tmp_path) is None
    assert [file.name for file in tmp_path.iterdir()] == ["hostler.db"]
    assert (tmp_path / "hostler.db").read_bytes() == before
