"""Configurations applied one after the other to a real database: stored, reported and audited alike."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.agents import AgentSpec
from hostler.domain.config_changes import Change, ConfigDiff
from hostler.domain.model_entries import ModelEntry
from hostler.domain.retention import Retention
from hostler.domain.tool_entries import ExecEntry, FilesEntry, ToolEntry
from hostler.domain.webhooks import Webhook
from hostler.domain.working_folders import WorkingFolderSettings
from hostler.host.config import ConfigFile, PluginEntry, PluginLevel
from hostler.host.config_diff import changes_of
from hostler.host.config_entries import entries_by_kind
from hostler.host.stored_config import NewConfig, StoredConfig, read_config, write_config
from hostler.storage.port import Database, Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.stores import audit
from support.databases import run

WORKSPACE = "w"
Plugins = dict[str, PluginEntry]
Step = tuple[ConfigFile, Plugins, bool]
"""A configuration, its plugins by identity, and whether entries that it leaves out are removed."""


def some(*entries: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    """Any of the entries, each in any of its forms."""
    return st.tuples(*(st.none() | entry for entry in entries)).map(lambda found: [e for e in found if e])


def agent(name: str) -> st.SearchStrategy[object]:
    return st.sampled_from(
        [AgentSpec(name=name, runner="r"), AgentSpec(name=name, runner="r", enabled=False)]
    )


def model(id_: str) -> st.SearchStrategy[object]:
    return st.sampled_from([ModelEntry(id=id_), ModelEntry(id=id_, timeout=3)])


CONFIGS = st.builds(
    ConfigFile,
    models=some(model("small"), model("large")),
    agents=some(agent("a"), agent("b")),
    tools=some(
        st.sampled_from([ToolEntry(exec=ExecEntry()), ToolEntry(exec=ExecEntry(seconds=1))]),
        st.just(ToolEntry(files=FilesEntry())),
    ),
    skills=some(st.just("/skills/a"), st.just("/skills/b")),
    webhooks=some(st.just(Webhook(name="hook", url="https://a", secret="env:S"))),
    retention=st.sampled_from([None, Retention(events=1), Retention(events=2)]),
    working_folders=st.sampled_from([None, WorkingFolderSettings(per="run")]),
    pause_key=st.sampled_from([[], ["env:A"], ["env:B", "env:A"]]),
    master_key=st.sampled_from([[], ["env:A"], ["env:B", "env:A"]]),
)


def _other(level: PluginLevel | None) -> PluginEntry:
    return PluginEntry(path="/other", level=level)


PLUGINS = st.fixed_dictionaries(
    {},
    optional={
        "acme/echo": st.sampled_from([PluginEntry(path="/echo"), PluginEntry(path="/moved")]),
        "acme/other": st.sampled_from(
            [PluginEntry(path="/other"), PluginEntry(path="/other", level="trusted")]
        ),
    },
)
STEPS = st.lists(st.tuples(CONFIGS, PLUGINS, st.booleans()), min_size=1, max_size=5)


def plugins_of(stored: StoredConfig) -> Plugins:
    """The stored plugins by the identity that was recorded."""
    entries = [entry for entry in stored.config.plugins if isinstance(entry, PluginEntry)]
    return {stored.plugin_keys[entry.path]: entry for entry in entries}


def audited(tx: Tx) -> list[str]:
    """The audited actions with their entries, newest first."""
    return [f"{fact.action} {fact.target}" for fact in audit.page(tx, WORKSPACE)]


async def apply(database: Database, config: ConfigFile, plugins: Plugins, *, prune: bool) -> list[Change]:
    """Apply a configuration; return its effective changes, which are exactly what is audited."""
    stored = await database.read(lambda tx: read_config(tx, WORKSPACE))
    changes = changes_of(stored, plugins_of(stored), config, plugins, prune=prune, shown=lambda one: one)
    effective = ConfigDiff(changes=changes, applied=True).effective
    before = await database.read(audited)
    new = NewConfig(config, plugins, changes)
    await database.write(lambda tx: write_config(tx, WORKSPACE, new, "someone"))
    after = await database.read(audited)
    assert sorted(after[: len(after) - len(before)]) == sorted(
        f"{change.kind}.{change.change} {change.name}" for change in effective
    )
    return effective


async def follow(database: Database, steps: list[Step]) -> None:
    """Apply each configuration twice, and compare what is stored with what should be."""
    expected = entries_by_kind(ConfigFile(), {})
    for config, plugins, prune in steps:
        before, named = expected, entries_by_kind(config, plugins)
        expected = {kind: ({} if prune else {**before[kind]}) | {**named[kind]} for kind in before}
        changes = await apply(database, config, plugins, prune=prune)
        stored = await database.read(lambda tx: read_config(tx, WORKSPACE))
        assert entries_by_kind(stored.config, plugins_of(stored)) == expected
        assert len(changes) == sum(
            before[kind].get(name) != expected[kind].get(name)
            for kind in expected
            for name in {*before[kind], *expected[kind]}
        )
        assert await apply(database, config, plugins, prune=prune) == []
        again = await database.read(lambda tx: read_config(tx, WORKSPACE))
        assert again == stored


@settings(max_examples=25)
@given(STEPS)
def test_what_is_stored_and_audited_follows_the_changes(steps: list[Step]) -> None:
    with TemporaryDirectory() as folder:

        async def opened() -> None:
            database = open_database(str(Path(folder) / "facts.db"))
            try:
                await follow(database, steps)
            finally:
                await database.close()

        run(opened())
