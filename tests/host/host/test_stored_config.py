"""Nothing that is stored keeps a host from starting: what does not work is reported, and can be mended."""

from __future__ import annotations

import shutil
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry
from hostler.domain.tool_entries import FetchEntry, ToolEntry
from hostler.host.config import ConfigFile, PluginEntry, PluginLimitsEntry, Settings
from hostler.host.host import Host
from hostler.host.stored_config import StoredPlugin
from hostler.storage.port import Query, Tx
from hostler.storage.stores import agents, settings
from hostler_protocol.errors import InvalidArgumentError, StorageError
from support.command_line import ECHO

WS = "default"


def opened(data: Path, database: str | None = None) -> AbstractAsyncContextManager[Host]:
    """A host that only looks and configures."""
    settings = Settings(data_dir=data, database=database, passive=True, shutdown_grace_seconds=0.0)
    return Host.open(settings)


def plugin(folder: Path, name: str = "echo", manifest: str | None = None) -> Path:
    """A plugin folder: the echo example under another name, or with another manifest."""
    shutil.copytree(ECHO, folder)
    text = (ECHO / "hostler.yaml").read_text().replace("name: echo", f"name: {name}", 1)
    (folder / "hostler.yaml").write_text(text if manifest is None else manifest)
    return folder


GARBAGE: list[tuple[str, str, str]] = [
    ("plugin", "/srv/one", '{"path": "/srv/one", "colour": "red"}'),
    ("plugin", "/srv/two", "no json"),
    ("model", "main", '{"id": "main", "timeout": "long"}'),
    ("tool", "mcp:files", '{"mcp": {"name": "files"}, "exec": {}}'),
    ("tool", "mcp:gone", '{"mcp": {"name": "gone"}}'),
    ("tool", "grpc:x", '{"grpc": {"name": "x"}}'),
    ("skill", "/srv/skills", "[]"),
    ("webhook", "hook", '{"name": "hook"}'),
    ("retention", "policy", '{"centuries": 1}'),
    ("working_folders", "policy", '{"per": "person"}'),
    ("cors", "policy", '{"origins": "https://a.example"}'),
    ("pause_key", "policy", '{"keys": ["env:NOT_SET_ANYWHERE"]}'),
    ("master_key", "policy", '{"keys": "env:NOT_SET_ANYWHERE"}'),
]


async def test_garbage_of_every_kind_is_reported_and_can_be_replaced_and_removed(
    tmp_path: Path, database_url: str
) -> None:
    def agent(name: str) -> AgentSpec:
        return AgentSpec(name=name, runner="plugin:hostler/local-agent/default", config={"model": "main"})

    def run_raw(tx: Tx, sql: str) -> None:
        tx.run(Query("raw", sql, sql))

    def spoil(tx: Tx) -> None:
        for kind, name, text in GARBAGE:
            settings.put(tx, WS, kind, name, {"x": name})
            run_raw(tx, f"UPDATE settings SET spec = '{text}' WHERE kind = '{kind}' AND name = '{name}'")
        agents.apply(tx, WS, agent("good"))
        bad = agents.apply(tx, WS, agent("bad"))
        spec = '{"name": "bad", "runner": 7}'
        run_raw(tx, f"UPDATE agent_versions SET spec = '{spec}' WHERE agent_id = '{bad.agent_id}'")

    async with opened(tmp_path, database_url) as host:
        await host.db.write(spoil)
    async with opened(tmp_path, database_url) as host:
        problems = {(one.kind, one.name): one.problem for one in await host.problems()}
        assert {(kind, name) for kind, name, _ in GARBAGE} | {("agent", "bad")} <= problems.keys()
        assert "apply it again, or" in problems["agent", "bad"]
        assert [spec.name for spec in (await host.export()).agents] == ["good"]
        with pytest.raises(StorageError, match="does not fit this version"):
            await host.db.read(lambda tx: agents.find(tx, WS, "bad"))
        mended = ConfigFile(models=[ModelEntry(id="main", api_key="k")], agents=[agent("bad")])
        with pytest.raises(StorageError, match="master key cannot be read"):
            await host.apply(mended, actor="t")
        keyless = ConfigFile(models=[ModelEntry(id="main")], agents=[agent("bad")])
        await host.apply(keyless, actor="t")
        left = {(one.kind, one.name) for one in await host.problems()}
        assert not {("model", "main"), ("agent", "bad")} & left
        diff = await host.apply(mended, actor="t", prune=True)
        removed = {(one.kind, one.name) for one in diff.changes if one.change == "removed"}
        assert {(kind, name) for kind, name, _ in GARBAGE if kind != "model"} <= removed
        assert diff.problems == []
    async with opened(tmp_path, database_url) as host:
        assert await host.problems() == []


async def test_an_agent_that_was_stored_with_a_wrong_runner_stops_no_host(tmp_path: Path) -> None:
    async with opened(tmp_path) as host:
        await host.db.write(lambda tx: agents.apply(tx, WS, AgentSpec(name="odd", runner="echo")))
    async with Host.open(Settings(data_dir=tmp_path, shutdown_grace_seconds=0.0)) as host:
        (problem,) = await host.problems()
        assert (problem.kind, problem.name) == ("agent", "odd")
        assert "'echo' is not a runner id" in problem.problem


MANIFESTS = {
    "no yaml": "plugin: [",
    "deep": "x: " + "[" * 20_000,
    "aliases": "plugin: {author: acme, name: echo}\nx: &a [1]\ny: [*a, *a]\n",
    "no date": "plugin: {author: acme, name: echo}\nx: 2001-99-99\n",
    "no identity": "runners: []\n",
    "two runners of one name": "plugin: {author: acme, name: echo}\nrunners:\n"
    '  - {name: a, entry: "echo:Echo"}\n  - {name: a, entry: "echo:Echo"}\n',
}


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
async def test_a_plugin_folder_that_broke_since_it_was_applied_is_reported(
    tmp_path: Path, manifest: str
) -> None:
    folder, other = plugin(tmp_path / "echo"), plugin(tmp_path / "other", "other")
    wanted = ConfigFile(plugins=[str(folder), str(other)])
    async with opened(tmp_path / "data") as host:
        await host.apply(wanted, actor="t")
        (folder / "hostler.yaml").write_text(manifest)
    async with opened(tmp_path / "data") as host:
        (problem,) = await host.problems()
        assert (problem.kind, problem.name) == ("plugin", "acme/echo")
        assert [one.key for one in host.supervisor.status()] == ["acme/echo", "acme/other"]
        # as it is stored: it changes nothing, and says so again
        diff = await host.apply(wanted, actor="t")
        assert (diff.effective, diff.problems) == ([], [problem])
        with pytest.raises(InvalidArgumentError, match=r"^plugins\[0\] "):
            await host.apply(ConfigFile(plugins=[PluginEntry(path=str(folder), level="trusted")]), actor="t")
        plugin(tmp_path / "mended")
        (folder / "hostler.yaml").write_text((tmp_path / "mended" / "hostler.yaml").read_text())
        assert await host.problems() == []


async def test_folders_that_are_gone_and_two_of_one_identity_are_reported(tmp_path: Path) -> None:
    gone, one, two = (plugin(tmp_path / name, name) for name in ("gone", "one", "two"))
    async with opened(tmp_path / "data") as host:
        await host.apply(ConfigFile(plugins=[str(gone), str(one), str(two)]), actor="t")
        shutil.rmtree(gone)
        (two / "hostler.yaml").write_text((one / "hostler.yaml").read_text())
    async with opened(tmp_path / "data") as host:
        problems = {problem.name: problem.problem for problem in await host.problems()}
        assert problems["acme/gone"] == f"there is no plugin folder {gone}"
        assert problems[str(two)].startswith(f"{one} and {two} both say that they are acme/one")
        assert host.supervisor.source_of("acme/one").path == one  # type: ignore[union-attr]


async def test_a_model_whose_key_is_not_set_is_no_reason_to_refuse_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = ModelEntry(id="main", api_key="env:KEY_OF_MAIN")
    async with opened(tmp_path) as host:
        diff = await host.apply(ConfigFile(models=[entry]), actor="t")
        assert [one.change for one in diff.changes] == ["added"]
        (problem,) = diff.problems
        assert "the environment variable KEY_OF_MAIN is not set" in problem.problem
        monkeypatch.setenv("KEY_OF_MAIN", "k")
        assert (await host.apply(ConfigFile(models=[entry]), actor="t")).problems == []
        monkeypatch.delenv("KEY_OF_MAIN")
    async with opened(tmp_path) as host:
        more = ConfigFile(models=[entry, ModelEntry(id="spare")])
        diff = await host.apply(more, actor="t")
        assert [(one.name, one.change) for one in diff.changes] == [
            ("main", "unchanged"),
            ("spare", "added"),
        ]
        (problem,) = diff.problems
        assert (problem.kind, problem.name) == ("model", "main")
        assert [model.model_id for model in host.models.list()] == ["spare"]


async def test_what_is_new_and_wrong_is_refused_though_nothing_of_its_kind_is_stored(tmp_path: Path) -> None:
    wrong = [
        ConfigFile(pause_key=["a key that is written out"]),
        ConfigFile(models=[ModelEntry(id="")]),
        ConfigFile(models=[ModelEntry(id="a\x00b")]),
        ConfigFile(skills=["s" * 5_000]),
    ]
    async with opened(tmp_path) as host:
        for config in wrong:
            with pytest.raises(InvalidArgumentError):
                await host.apply(config, actor="t")
        assert await host.export() == ConfigFile()


async def test_more_tool_entries_than_a_host_has_room_for_are_refused_and_never_stop_it(
    tmp_path: Path,
) -> None:
    def tools(first: int, end: int) -> ConfigFile:
        return ConfigFile(
            tools=[ToolEntry(fetch=FetchEntry(name=f"f{number}")) for number in range(first, end)]
        )

    def store(tx: Tx) -> None:
        for number in range(150, 210):
            settings.put(tx, WS, "tool", f"fetch:f{number}", {"fetch": {"name": f"f{number}"}})

    async with opened(tmp_path) as host:
        await host.apply(tools(0, 150), actor="t")
        with pytest.raises(InvalidArgumentError, match="there would be 210; at most 200"):
            await host.apply(tools(150, 210), actor="t")
        await host.db.write(store)
    async with opened(tmp_path) as host:
        assert len([one for one in await host.problems() if "over 200 entries" in one.problem]) == 10


def test_a_stored_plugin_entry_is_what_was_applied_in_every_field() -> None:
    entry = PluginEntry(
        path="/srv/echo",
        level="trusted",
        network=["example.com:443"],
        allow_requires=["./wheels/tiny-1.0-py3-none-any.whl"],
        pin=True,
        limits=PluginLimitsEntry(memory_mib=64),
    )
    plain = PluginEntry(path="/srv/echo")
    same = [name for name in PluginEntry.__struct_fields__ if getattr(entry, name) == getattr(plain, name)]
    assert same == ["path"], "give every field a value of its own here"
    stored = msgspec.convert({**msgspec.to_builtins(entry), "plugin": "acme/echo"}, StoredPlugin)
    assert stored.entry == entry


async def test_wheels_that_an_operator_allowed_are_allowed_after_a_restart(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "echo")
    entry = PluginEntry(path=str(folder), allow_requires=["./wheels/tiny-1.0-py3-none-any.whl"])
    async with opened(tmp_path / "data") as host:
        await host.apply(ConfigFile(plugins=[entry]), actor="test")
    async with opened(tmp_path / "data") as host:
        assert (await host.export()).plugins == [entry]
        (again,) = (await host.apply(ConfigFile(plugins=[entry]), actor="test")).changes
        assert again.change == "unchanged"


UNREACHABLE = ["", " ", ".", "..", "a\x00b"]


@pytest.mark.parametrize("name", UNREACHABLE, ids=repr)
async def test_a_name_that_no_address_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    """What is stored can be shown, changed and removed: /v1/config/models/.. is another place."""
    folder = plugin(tmp_path / "echo")
    wrong: list[ConfigFile] = [
        ConfigFile(models=[ModelEntry(id=name, provider="demo")]),
        ConfigFile(agents=[AgentSpec(name=name, runner="plugin:acme/echo/default")]),
    ]
    async with opened(tmp_path / "data") as host:
        await host.apply(ConfigFile(plugins=[str(folder)]), actor="test")
        for config in wrong:
            with pytest.raises(InvalidArgumentError, match="a name"):
                await host.apply(config, actor="test")
        kept = await host.export()
        assert (kept.models, kept.agents) == ([], [])


@pytest.mark.parametrize("path", ["/srv/a\x00b", "/" + "x" * 5_000])
async def test_a_path_that_no_file_system_has_is_a_mistake(tmp_path: Path, path: str) -> None:
    async with opened(tmp_path / "data") as host:
        for config in (ConfigFile(skills=[path]), ConfigFile(plugins=[path])):
            with pytest.raises(InvalidArgumentError):
                await host.apply(config, actor="test")


async def test_agents_whose_form_changed_are_told_and_stop_no_host(tmp_path: Path, database_url: str) -> None:
    folder = plugin(tmp_path / "echo")
    spec = AgentSpec(name="echo", runner="plugin:acme/echo/default", config={"suffix": "?"})
    wanted = ConfigFile(plugins=[str(folder)], agents=[spec])
    code = folder / "echo.py"
    async with opened(tmp_path / "data", database_url) as host:
        assert (await host.apply(wanted, actor="t")).problems == []
    before = code.read_text()
    code.write_text(before.replace('"suffix"', '"ending"'))
    async with opened(tmp_path / "data", database_url) as host:
        (problem,) = await host.problems()
        assert (problem.kind, problem.name, problem.place) == ("agent", "echo", "config.suffix")
        assert problem.severity == "error"
        assert "unknown option" in problem.problem
        assert (await host.apply(wanted, actor="t")).problems == [problem]  # unchanged: told, not refused
        changed = msgspec.structs.replace(spec, priority=1)
        with pytest.raises(InvalidArgumentError, match=r'agents\[0\] "echo": config\.suffix: unknown option'):
            await host.apply(ConfigFile(agents=[changed]), actor="t")
        (stored,) = (await host.export()).agents
        assert stored == spec
    async with Host.open(
        Settings(data_dir=tmp_path / "data", database=database_url, shutdown_grace_seconds=0.0)
    ) as host:
        await host.supervisor.start_all()
        assert [(one.name, one.place) for one in await host.problems()] == [("echo", "config.suffix")]
    code.write_text(before)
    async with opened(tmp_path / "data", database_url) as host:
        assert await host.problems() == []
