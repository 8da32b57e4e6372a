"""Plugins are started as the operator knows them: their requirements, and their files where asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.config_changes import ConfigDiff
from hostler.host.config import ConfigFile, PluginEntry, PluginLimitsEntry
from hostler.plugins.pins import MAX_PINNED_FILES, digest_of_files
from hostler.plugins.source import Folder
from hostler.storage.stores import audit
from hostler_protocol.errors import PluginStartError
from support.command_line import CommandLine
from support.http_host import ADMIN_KEY, WORKSPACE, Served, serving
from support.packages import Index, write_wheel
from support.postgres import PostgresServer

pytestmark = pytest.mark.gate("plugin-pins")

BOUND_SECONDS = 180.0
KEY = "test/teller"
RUNNER = f"plugin:{KEY}/default"
MANIFEST = """
plugin: {{author: test, name: teller, version: 1.0.0}}
runners: [{{name: default, entry: "teller:Teller"}}]
requires: {requires}
"""
TELLER = """
from hostler_sdk import Runner, message
import tiny

class Teller(Runner):
    async def run(self, ctx):
        yield message(f"{WORD} {tiny.VALUE}")

WORD = "first"
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index with version 1.0 of `tiny`, and its values."""
    folder = tmp_path / "index"
    write_wheel(folder, "tiny", "VALUE = 1\n")
    with Index(folder).serving() as serving_:
        monkeypatch.setenv("UV_DEFAULT_INDEX", serving_.url)
        yield serving_


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "teller"
    made.mkdir()
    (made / "teller.py").write_text(TELLER)
    require(made, "tiny")
    return made


def require(folder: Path, *requires: str) -> None:
    (folder / "hostler.yaml").write_text(MANIFEST.format(requires=json.dumps(list(requires))))


def say(folder: Path, word: str) -> None:
    (folder / "teller.py").write_text(TELLER.replace("first", word))


class Pinned:
    """A host with the plugin in its configuration."""

    def __init__(self, served: Served) -> None:
        self.served = served

    async def apply(
        self, folder: Path, *, pin: bool = False, dry_run: bool = False, **fields: Any
    ) -> ConfigDiff:
        """Apply the entry, and an agent that names its runner, so that it is started to be asked."""
        entry = PluginEntry(path=str(folder), level="trusted", pin=pin, **fields)
        agent = AgentSpec(name="teller", runner=RUNNER)
        config = ConfigFile(plugins=[entry], agents=[agent])
        return await self.served.host.apply(config, actor="test", dry_run=dry_run)

    async def said(self) -> str:
        """What a run says, or why it failed."""
        body = {"event_type": "message.received", "input": {"text": "hi"}, "agent": "teller"}
        run = (await self.served.client.post("/v1/events", json=body, params={"wait": 90})).json()
        if run["status"] == "completed":
            return str(run["output"]["text"])
        journal = (await self.served.client.get(f"/v1/runs/{run['run_id']}/journal")).json()["items"]
        return str(next(e["data"]["error"] for e in journal if e["type"] == "run.failed"))

    async def record(self) -> dict[str, Any]:
        return dict((await self.served.client.get("/v1/plugins/test%2Fteller")).json())

    async def pin(self) -> dict[str, Any]:
        return dict((await self.record())["pin"])

    async def confirm(self, digest: str | None = None, *, upgrade: bool = False) -> tuple[int, Any]:
        body = {"digest": digest or (await self.pin())["digest"], "upgrade": upgrade}
        answer = await self.served.client.post("/v1/plugins/test%2Fteller/confirm", json=body, timeout=120)
        return answer.status_code, answer.json()

    async def restart(self) -> int:
        answer = await self.served.client.post("/v1/plugins/test%2Fteller/restart", timeout=120)
        return answer.status_code

    async def facts(self) -> list[str]:
        found = await self.served.host.db.read(lambda tx: audit.page(tx, WORKSPACE, limit=100))
        return [one.action for one in found if one.target == KEY and one.action != "plugin.restarted"][::-1]


@contextlib.asynccontextmanager
async def hosting(data: Path, **settings: Any) -> AsyncIterator[Pinned]:
    async with asyncio.timeout(BOUND_SECONDS), serving(data, agent=False, **settings) as served:
        yield Pinned(served)


def versions(pin: dict[str, Any]) -> list[str]:
    return [f"{one['name']} {one['version']}" for one in pin["packages"]]


def forget_environments(data: Path) -> None:
    """As on another machine, or after somebody tidied up."""
    shutil.rmtree(data / "plugins" / "environments")


async def test_what_requirements_were_resolved_to_is_kept_shown_and_used_again(
    tmp_path: Path, index: Index, folder: Path
) -> None:
    data = tmp_path / "data"
    async with hosting(data) as host:
        await host.apply(folder)
        pin = await host.pin()
        assert (pin["requires"], versions(pin), pin["changed"]) == (["tiny"], ["tiny 1.0"], None)
        assert all(one["digests"] for one in pin["packages"])
        assert await host.said() == "first 1"
    write_wheel(index.folder, "tiny", "VALUE = 2\n", version="2.0")
    forget_environments(data)
    async with hosting(data) as host:
        assert await host.said() == "first 1", "built again, by the lock"
        assert versions(await host.pin()) == ["tiny 1.0"]
        assert (await host.facts()) == ["plugin.recorded", "plugin.locked"]
    command = CommandLine(data, tmp_path)
    shown = await asyncio.to_thread(command, "plugins", "show", KEY)
    assert "tiny 1.0" in shown.out


async def test_a_file_that_is_another_one_under_the_same_version_is_not_installed(
    tmp_path: Path, index: Index, folder: Path
) -> None:
    data = tmp_path / "data"
    async with hosting(data) as host:
        await host.apply(folder)
        assert await host.said() == "first 1"
    write_wheel(index.folder, "tiny", "VALUE = 'evil'\n")
    forget_environments(data)
    async with hosting(data) as host:
        why = await host.said()
        assert "environment cannot be built" in why
        assert "ash" in why, "hash"


async def test_changed_requirements_wait_for_the_operator(tmp_path: Path, index: Index, folder: Path) -> None:
    data = tmp_path / "data"
    write_wheel(index.folder, "extra", "VALUE = 9\n")
    async with hosting(data) as host:
        await host.apply(folder)
        assert await host.said() == "first 1"
        require(folder, "tiny", "extra")
        assert (await host.pin())["changed"] == "it requires 'extra' now"
        assert await host.said() == "first 1", "the process at work goes on"
        assert await host.restart() == 502
        assert await host.said() == "first 1", "and stays"
    asked = len(index.asked)
    async with hosting(data) as host:
        why = await host.said()
        assert "it requires 'extra' now, since it was confirmed" in why
        assert "`hostler plugins confirm test/teller`" in why
        assert len(index.asked) == asked, "nothing was looked up for it"
        problems = (await host.served.client.get("/v1/problems")).json()["items"]
        assert any(one["kind"] == "plugin" and "plugins confirm" in one["problem"] for one in problems)
        status, record = await host.confirm("0" * 64)
        assert status == 409, record
        status, record = await host.confirm()
        assert (status, record["state"]) == (200, "ready")
        assert versions(record["pin"]) == ["extra 1.0", "tiny 1.0"]
        assert record["pin"]["confirmed_by"] is not None
        assert await host.said() == "first 1"
        assert "plugin.confirmed" in await host.facts()


@pytest.mark.parametrize("what", ["requirements", "files"])
async def test_no_change_of_the_entry_starts_what_was_not_confirmed(
    tmp_path: Path, index: Index, folder: Path, what: str
) -> None:
    """What an entry names is started to learn what it offers, also before the entry is applied."""
    write_wheel(index.folder, "extra", "VALUE = 9\n")
    ran, data = tmp_path / "ran", tmp_path / "data"
    async with hosting(data) as host:
        await host.apply(folder, pin=True)
        assert await host.said() == "first 1"
        if what == "requirements":
            require(folder, "tiny", "extra")
        (folder / "teller.py").write_text(f"open({str(ran)!r}, 'w')\n" + TELLER)
        asked = len(index.asked)
        for number, dry_run in enumerate((True, False)):
            limits = PluginLimitsEntry(memory_mib=500 + number)
            diff = await host.apply(folder, pin=True, limits=limits, dry_run=dry_run)
            assert any("since it was confirmed" in one.problem for one in diff.problems), diff.problems
            assert not ran.exists()
            assert len(index.asked) == asked, "nothing was looked up for it"
            assert (await host.pin())["changed"]
        assert "since it was confirmed" in await host.said()
    command = CommandLine(data, tmp_path)
    for arguments in (("doctor",), ("plugins", "show", KEY), ("plugins", "change", KEY, "level=trusted")):
        await asyncio.to_thread(command, *arguments)
        assert not ran.exists(), arguments
    run = (await asyncio.to_thread(command, "runs", "list", "--status", "completed", "--json")).json[0][
        "run_id"
    ]
    replayed = await asyncio.to_thread(command, "replay", run)
    assert replayed.status != 0
    assert f"`hostler plugins confirm {KEY}`" in replayed.err
    assert not ran.exists()
    async with hosting(data) as host:
        assert not ran.exists()
        assert (await host.confirm())[0] == 200
        assert await host.said() == "first 1"
        assert ran.exists()


async def test_newer_versions_come_with_an_upgrade(tmp_path: Path, index: Index, folder: Path) -> None:
    data = tmp_path / "data"
    async with hosting(data) as host:
        await host.apply(folder)
        write_wheel(index.folder, "tiny", "VALUE = 2\n", version="2.0")
        status, record = await host.confirm()
        assert (status, versions(record["pin"])) == (200, ["tiny 1.0"])
        assert await host.restart() == 200
        assert await host.said() == "first 1"
        status, record = await host.confirm(upgrade=True)
        assert (status, versions(record["pin"])) == (200, ["tiny 2.0"])
        assert await host.said() == "first 2"
    async with hosting(data) as host:
        assert await host.said() == "first 2"


async def test_files_may_change_unless_they_are_pinned(tmp_path: Path, index: Index, folder: Path) -> None:
    data = tmp_path / "data"
    async with hosting(data) as host:
        await host.apply(folder)
        say(folder, "second")
        assert await host.restart() == 200
        assert await host.said() == "second 1"
        await host.apply(folder, pin=True)
        assert (await host.pin())["files"] is True
        say(folder, "third")
        assert (await host.pin())["changed"] == "its files are other ones"
        assert await host.restart() == 502
        assert await host.said() == "second 1", "a run after the change: the process is still the old one"
    async with hosting(data) as host:
        assert "its files are other ones, since it was confirmed" in await host.said()
        say(folder, "second")
        assert await host.said() == "second 1", "as it was confirmed again"
    say(folder, "third")
    async with hosting(data) as host:
        assert (await host.confirm())[0] == 200
        assert await host.said() == "third 1"
        assert not list(folder.rglob("__pycache__")) or (await host.pin())["changed"] is None


async def test_bytecode_beside_pinned_code_is_not_executed(
    tmp_path: Path, index: Index, folder: Path
) -> None:
    """A file in `__pycache__` that claims to be of the present source."""
    import py_compile

    data = tmp_path / "data"
    async with hosting(data) as host:
        await host.apply(folder, pin=True)
        assert await host.said() == "first 1"
    source = folder / "teller.py"
    evil = tmp_path / "evil.py"
    evil.write_text(TELLER.replace("first", "wrong"))
    cached = Path(py_compile.compile(str(evil), str(tmp_path / "evil.pyc")) or "")
    status = source.stat()
    header = int(status.st_mtime).to_bytes(4, "little") + (status.st_size & 0xFFFFFFFF).to_bytes(4, "little")
    import sys

    target = folder / "__pycache__" / f"teller.{sys.implementation.cache_tag}.pyc"
    target.parent.mkdir(exist_ok=True)
    body = cached.read_bytes()
    target.write_bytes(body[:8] + header + body[16:])
    async with hosting(data) as host:
        assert await host.said() == "first 1"


async def test_another_folder_is_the_operators_choice_and_a_removed_plugin_is_forgotten(
    tmp_path: Path, index: Index, folder: Path
) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    say(other, "moved")
    data = tmp_path / "data"
    async with hosting(data) as host:
        await host.apply(folder, pin=True)
        await host.apply(other, pin=True)
        assert await host.said() == "moved 1"
        assert (await host.served.client.delete("/v1/config/plugins/test%2Fteller")).status_code == 200
        say(other, "again")
        await host.apply(other, pin=True)
        assert await host.said() == "again 1"
        facts = [action for action in await host.facts() if action in {"plugin.recorded", "plugin.moved"}]
        assert facts == ["plugin.recorded", "plugin.moved", "plugin.recorded"]


async def test_a_folder_that_no_entry_names_is_not_pinned(tmp_path: Path, index: Index, folder: Path) -> None:
    """`hostler run FOLDER` and `hostler dev` start what is there."""
    async with hosting(tmp_path / "data") as host:
        supervisor = host.served.host.supervisor
        supervisor.add(Folder(folder, level="trusted"))
        await supervisor.connection(KEY)
        require(folder, "tiny>=1")
        await supervisor.restart(KEY)
        assert (await host.record())["pin"] is None
        status = await host.served.client.post("/v1/plugins/test%2Fteller/confirm", json={"digest": "x"})
        assert status.status_code == 404


@pytest.mark.postgres
async def test_hosts_of_one_database_use_one_lock(
    tmp_path: Path, index: Index, folder: Path, postgres_server: PostgresServer, postgres_template: str
) -> None:
    url = postgres_server.create(postgres_template)
    async with hosting(tmp_path / "one", database=url) as first:
        await first.apply(folder)
        assert await first.said() == "first 1"
        write_wheel(index.folder, "tiny", "VALUE = 2\n", version="2.0")
        async with hosting(tmp_path / "two", database=url) as second:
            await second.served.host.supervisor.connection(KEY)
            assert versions(await second.pin()) == ["tiny 1.0"]
            require(folder, "tiny<3")
            for host in (first, second):
                assert (await host.pin())["changed"]
            assert (await second.confirm())[0] == 200
            assert versions(await first.pin()) == ["tiny 2.0"]
            assert await first.restart() == 200


async def test_commands_confirm_and_say_which_packages_changed(
    tmp_path: Path, index: Index, folder: Path
) -> None:
    data = tmp_path / "data"
    async with hosting(data) as host:
        await host.apply(folder)
        write_wheel(index.folder, "tiny", "VALUE = 2\n", version="2.0")
        command = CommandLine(data, tmp_path, HOSTLER_URL=host.served.url, HOSTLER_KEY=ADMIN_KEY)
        done = await asyncio.to_thread(command, "plugins", "confirm", KEY, "--upgrade")
        assert done.status == 0, done.err
        assert "tiny 1.0 -> 2.0" in done.err
        assert await host.said() == "first 2"
        unknown = await asyncio.to_thread(command, "plugins", "confirm", "nobody/knows")
        assert unknown.status == 1


def test_a_digest_covers_all_files_and_follows_no_links(tmp_path: Path) -> None:
    top = tmp_path / "p"
    (top / "deep").mkdir(parents=True)
    (top / "deep" / "a.py").write_text("1")
    before = digest_of_files(top)
    (top / "__pycache__").mkdir()
    (top / "__pycache__" / "a.pyc").write_text("x")
    assert digest_of_files(top) == before
    for change in (
        lambda: (top / "deep" / "a.py").write_text("2"),
        lambda: (top / "deep" / "a.py").chmod(0o755),
        lambda: (top / "deep" / "a.py").rename(top / "a.py"),
        lambda: (top / ".hidden").write_text(""),
    ):
        change()
        assert digest_of_files(top) != before
        before = digest_of_files(top)
    (top / "link").symlink_to("/etc/passwd")
    with pytest.raises(PluginStartError, match="link: a link"):
        digest_of_files(top)
    (top / "link").unlink()
    (top / "deep" / "many").mkdir()
    for number in range(MAX_PINNED_FILES + 1):
        (top / "deep" / "many" / f"{number}").touch()
    with pytest.raises(PluginStartError, match="too much to pin"):
        digest_of_files(top)
