"""Changes of a configuration, without a host: applied twice, removed, renamed, moved; and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from hostler.domain.config_changes import Change, ConfigProblem
from hostler.domain.tool_entries import MAX_TOOL_ENTRIES
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.config_diff import Entries, changes_of, must_be_named, must_be_new, refuse_too_many
from hostler.host.config_entries import ENTRY_KINDS, entries_by_kind
from hostler.host.config_file import parse_config
from hostler.host.stored_config import NewConfig, StoredConfig
from hostler_protocol.errors import ConflictError, HostlerError, InvalidArgumentError, NotFoundError

WHOLE = parse_config(
    """
models: [{id: small}]
agents: [{name: support, runner: plugin:acme/echo/default}]
tools: [{exec: {seconds: 5}}]
skills: [/skills/review]
webhooks: [{name: hook, url: "https://a.example", secret: "env:S"}]
widgets: [{name: help, agent: support, origins: ["https://a.example"]}]
hooks: [{name: code, verify: github, secrets: ["env:S"]}]
schedules: [{name: morning, cron: "0 7 * * *"}]
channels: [{name: chat, channel: "plugin:a/b/c"}]
sign_in: [{name: corp, issuer: "https://id.example", client_id: c, redirect_url: "https://h.example/v1/auth/callback"}]
retention: {events: 30}
working_folders: {per: run}
pause_key: ["env:KEY"]
master_key: ["command:kms key"]
workspaces: [{name: tenant-a, models: [small]}]
audit_anchors: {key: "env:ANCHOR_KEY", file: /var/anchors}
cors: {origins: ["https://app.example.com"]}
""",
    name="c.yaml",
)
ECHO = PluginEntry(path="/plugins/echo")
PLUGINS = {"acme/echo": ECHO}
NAMES = {
    "plugin": "/plugins/echo",
    "model": "small",
    "agent": "support",
    "tool": "exec:exec",
    "skill": "/skills/review",
    "webhook": "hook",
    "hook": "code",
    "schedule": "morning",
    "channel": "chat",
    "widget": "help",
    "sign_in": "corp",
    "retention": "policy",
    "working_folders": "policy",
    "pause_key": "policy",
    "master_key": "policy",
    "workspace": "tenant-a",
    "audit_anchors": "policy",
    "cors": "policy",
}
EMPTY = StoredConfig(ConfigFile())


def changes(
    stored: ConfigFile,
    config: ConfigFile,
    *,
    before: Mapping[str, PluginEntry] = {},
    after: Mapping[str, PluginEntry] = {},
    problems: Sequence[ConfigProblem] = (),
    prune: bool = False,
) -> list[Change]:
    return changes_of(
        StoredConfig(stored, {}, problems), before, config, after, prune=prune, shown=lambda one: one
    )


def told(found: Sequence[Change]) -> set[tuple[str, str, str]]:
    return {(change.kind, change.name, change.change) for change in found}


def test_there_is_a_name_here_for_every_kind_of_entry() -> None:
    assert NAMES.keys() == {kind.kind for kind in ENTRY_KINDS.values()}


def test_everything_new_is_added() -> None:
    added = changes(ConfigFile(), WHOLE, after=PLUGINS)
    assert told(added) == {(kind, name, "added") for kind, name in NAMES.items()}
    (tool,) = [change for change in added if change.kind == "tool"]
    assert (tool.before, tool.after) == (None, {"exec": {"seconds": 5.0}})


@pytest.mark.parametrize("prune", [False, True])
def test_applied_twice_nothing_changes(prune: bool) -> None:
    again = changes(WHOLE, WHOLE, before=PLUGINS, after=PLUGINS, prune=prune)
    assert told(again) == {(kind, name, "unchanged") for kind, name in NAMES.items()}


def test_what_a_file_leaves_out_stays_unless_it_is_pruned() -> None:
    kept = changes(WHOLE, ConfigFile(), before=PLUGINS)
    assert told(kept) == {(kind, name, "kept") for kind, name in NAMES.items()}
    removed = changes(WHOLE, ConfigFile(), before=PLUGINS, prune=True)
    assert told(removed) == {(kind, name, "removed") for kind, name in NAMES.items()}
    assert all(change.before is None for change in kept)
    assert {change.kind: change.before for change in removed}["model"] == {"id": "small"}


def test_an_entry_with_another_name_is_another_entry() -> None:
    renamed = msgspec.structs.replace(WHOLE, agents=[msgspec.structs.replace(WHOLE.agents[0], name="help")])
    for prune, end in ((False, "kept"), (True, "removed")):
        found = changes(WHOLE, renamed, before=PLUGINS, after=PLUGINS, prune=prune)
        assert {(change.name, change.change) for change in found if change.kind == "agent"} == {
            ("support", end),
            ("help", "added"),
        }


def test_a_changed_entry_shows_its_fields_before_and_after() -> None:
    other = parse_config("agents: [{name: support, runner: r, priority: 3}]", name="c.yaml")
    (agent,) = [change for change in changes(WHOLE, other) if change.kind == "agent"]
    assert (agent.change, agent.after) == ("changed", {"name": "support", "runner": "r", "priority": 3})
    assert agent.before == {"name": "support", "runner": "plugin:acme/echo/default"}


def test_a_plugin_that_moved_is_one_change_under_its_new_path() -> None:
    moved = PluginEntry(path="/elsewhere/echo")
    (change,) = changes(ConfigFile(), ConfigFile(), before=PLUGINS, after={"acme/echo": moved}, prune=True)
    assert (change.name, change.change) == ("/elsewhere/echo", "changed")
    assert change.before == {"path": "/plugins/echo"}
    assert change.after == {"path": "/elsewhere/echo"}


def test_a_folder_with_another_plugin_in_it_now_is_not_removed_as_well() -> None:
    (change,) = changes(ConfigFile(), ConfigFile(), before=PLUGINS, after={"acme/other": ECHO}, prune=True)
    assert (change.name, change.change) == ("/plugins/echo", "added")


def test_an_entry_that_cannot_be_read_is_kept_pruned_or_replaced() -> None:
    broken = [ConfigProblem(kind="model", name="small", problem="it has no provider")]
    assert told(changes(ConfigFile(), ConfigFile(), problems=broken)) == {("model", "small", "kept")}
    pruned = changes(ConfigFile(), ConfigFile(), problems=broken, prune=True)
    assert told(pruned) == {("model", "small", "removed")}
    models = ConfigFile(models=WHOLE.models)
    assert told(changes(ConfigFile(), models, problems=broken)) == {("model", "small", "added")}


@pytest.mark.parametrize(
    ("counts", "refused"),
    [
        ({"added": MAX_TOOL_ENTRIES}, False),
        ({"added": MAX_TOOL_ENTRIES + 1}, True),
        ({"added": 1, "kept": MAX_TOOL_ENTRIES}, True),
        ({"added": 1, "kept": MAX_TOOL_ENTRIES - 1}, False),
        ({"added": 1, "unchanged": MAX_TOOL_ENTRIES - 1, "removed": 9}, False),
        ({"changed": 1, "unchanged": MAX_TOOL_ENTRIES}, False),  # stored before: nothing more is added
    ],
)
def test_more_entries_than_can_be_stored_are_refused(counts: dict[Any, int], refused: bool) -> None:
    found = [
        Change(kind="tool", name=f"{change}{n}", change=change)
        for change, n in counts.items()
        for n in range(n)
    ]
    found.append(Change(kind="model", name="m", change="added"))
    if refused:
        with pytest.raises(InvalidArgumentError, match=f"there would be {MAX_TOOL_ENTRIES + 1}; at most"):
            refuse_too_many(found)
    else:
        refuse_too_many(found)


def single(kind: str, config: ConfigFile, plugins: Mapping[str, PluginEntry], change: Change) -> NewConfig:
    """One entry of the configuration, and its change."""
    field = ENTRY_KINDS[kind].field
    value = getattr(config, field)
    return NewConfig(ConfigFile(**{field: value}), plugins, [change])


def test_a_new_entry_must_be_new() -> None:
    added = Change(kind="model", name="small", change="added")
    must_be_new(single("models", WHOLE, {}, added))
    kept = Change(kind="model", name="large", change="kept")
    must_be_new(NewConfig(ConfigFile(models=WHOLE.models), {}, [added, kept]))
    for change in ("changed", "unchanged"):
        stored = Change(kind="model", name="small", change=change)
        with pytest.raises(ConflictError, match="there is a model 'small' already"):
            must_be_new(single("models", WHOLE, {}, stored))


def test_a_new_plugin_must_be_new_by_path_and_by_identity() -> None:
    same = Change(kind="plugin", name=ECHO.path, change="unchanged")
    with pytest.raises(ConflictError, match="there is a plugin '/plugins/echo' already"):
        must_be_new(NewConfig(ConfigFile(plugins=[ECHO]), PLUGINS, [same]))
    moved = Change(kind="plugin", name=ECHO.path, change="changed", before={"path": "/old"})
    with pytest.raises(ConflictError, match=r"acme/echo is there already, from /old.*plugins change"):
        must_be_new(NewConfig(ConfigFile(plugins=[ECHO]), PLUGINS, [moved]))


def test_a_changed_entry_keeps_its_name() -> None:
    new = NewConfig(ConfigFile(models=WHOLE.models), {}, [])
    must_be_named(ENTRY_KINDS["models"], "small")(new)
    with pytest.raises(InvalidArgumentError, match="this is the model 'small', and not 'large'"):
        must_be_named(ENTRY_KINDS["models"], "large")(new)
    plugin = NewConfig(ConfigFile(plugins=[ECHO]), PLUGINS, [])
    must_be_named(ENTRY_KINDS["plugins"], "acme/echo")(plugin)


STORED = Entries(
    entries_by_kind(WHOLE, PLUGINS), [ConfigProblem(kind="model", name="old", problem="it has no provider")]
)


def test_entries_are_found_by_name_and_plugins_by_path_too() -> None:
    assert STORED.get(ENTRY_KINDS["models"], "small") == WHOLE.models[0]
    assert STORED.get(ENTRY_KINDS["plugins"], "acme/echo") is ECHO
    assert STORED.get(ENTRY_KINDS["plugins"], "/plugins/echo") is ECHO
    for name in ("acme/echo", "/plugins/echo"):
        removal = STORED.removal(ENTRY_KINDS["plugins"], name, lambda one: one)
        assert (removal.name, removal.change, removal.before) == (ECHO.path, "removed", {"path": ECHO.path})


@pytest.mark.parametrize(
    ("kind", "name", "error", "words"),
    [
        ("models", "smal", NotFoundError, "no model 'smal': did you mean 'small'"),
        ("models", "old", InvalidArgumentError, "model 'old': it has no provider"),
        ("agents", "old", NotFoundError, "no agent 'old': known are support"),
    ],
)
def test_an_entry_that_is_not_found_is_explained(
    kind: str, name: str, error: type[HostlerError], words: str
) -> None:
    with pytest.raises(error, match=words):
        STORED.get(ENTRY_KINDS[kind], name)


def test_an_entry_that_cannot_be_read_can_be_removed() -> None:
    removal = STORED.removal(ENTRY_KINDS["models"], "old", lambda one: one)
    assert (removal.name, removal.change, removal.before) == ("old", "removed", None)
    with pytest.raises(NotFoundError, match="none is stored"):
        Entries(entries_by_kind(ConfigFile(), {}), []).removal(
            ENTRY_KINDS["models"], "small", lambda one: one
        )
