"""One entry of a configuration, given alone: its mistakes, its paths, and the configuration it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.host.config import PluginEntry
from hostler.host.config_entries import (
    ENTRY_KINDS,
    POLICY,
    entries_by_kind,
    entry_kind,
    read_entry,
    relative_paths,
    with_entry,
)
from hostler.host.config_file import ConfigSource, absolute
from hostler_protocol.errors import NotFoundError

ENTRIES: dict[str, tuple[dict[str, Any], str]] = {
    "plugins": ({"path": "/p"}, "/p"),
    "models": ({"id": "m"}, "m"),
    "tools": ({"exec": {"seconds": 5}}, "exec:exec"),
    "skills": ({"path": "/s"}, "/s"),
    "workspaces": ({"name": "w", "models": ["m"]}, "w"),
    "agents": ({"name": "a", "runner": "r"}, "a"),
    "webhooks": ({"name": "w", "url": "https://a", "secret": "env:S"}, "w"),
    "widgets": ({"name": "h", "agent": "a", "origins": ["https://a.example"]}, "h"),
    "hooks": ({"name": "h", "verify": "github", "secrets": ["env:S"]}, "h"),
    "schedules": ({"name": "s", "cron": "0 7 * * *"}, "s"),
    "channels": ({"name": "c", "channel": "plugin:acme/echo/chat", "enabled": False}, "c"),
    "sign_in": (
        {
            "name": "corp",
            "issuer": "https://id.example",
            "client_id": "c",
            "redirect_url": "https://h.example/v1/auth/callback",
        },
        "corp",
    ),
    "retention": ({"events": 3}, POLICY),
    "pause_key": ({"keys": ["env:A"]}, POLICY),
    "master_key": ({"keys": ["env:A", "command:kms key"]}, POLICY),
    "working_folders": ({"per": "run"}, POLICY),
    "audit_anchors": ({"key": "env:A", "file": "/a"}, POLICY),
    "cors": ({"origins": ["https://app.example.com"]}, POLICY),
}


@pytest.mark.parametrize("field", ENTRY_KINDS)
def test_an_entry_makes_a_configuration_of_it_alone(field: str) -> None:
    data, name = ENTRIES[field]
    entry, source = read_entry(ENTRY_KINDS[field], data)
    assert source.mistakes == ()
    assert source.entry == (field if name == POLICY else f"{field}[0]")
    config = with_entry(ENTRY_KINDS[field], entry)
    plugins = {one.path: one for one in config.plugins if isinstance(one, PluginEntry)}
    named = {kind: list(entries) for kind, entries in entries_by_kind(config, plugins).items() if entries}
    assert named == {ENTRY_KINDS[field].kind: [name]}


@pytest.mark.parametrize(
    ("field", "data", "message", "place"),
    [
        (
            "models",
            {"id": "m", "timout": 3},
            "model 'm': timout: unknown key; did you mean 'timeout'?",
            "timout",
        ),
        ("models", {}, "model: the key 'id' is missing", ""),
        ("models", "m", "model: expected an object, not a text", ""),
        ("retention", {"evnts": 3}, "retention: evnts: unknown key; did you mean 'events'?", "evnts"),
        ("tools", {"exec": {"name": "a b"}}, "exec.name: 'a b' is no name", "exec.name"),
        ("webhooks", {"name": "w", "url": "ftp://x", "secret": "env:S"}, "url: its url must begin", "url"),
        ("skills", {"path": "review"}, "path: this is a relative path: send the absolute one", "path"),
        ("plugins", {"path": "echo"}, "path: this is a relative path: send the absolute one", "path"),
    ],
)
def test_a_mistake_is_named_by_its_place_in_the_entry(
    field: str, data: Any, message: str, place: str
) -> None:
    _, source = read_entry(ENTRY_KINDS[field], data)
    error = source.error()
    assert message in error.message
    assert [one["field"] for one in error.details["errors"]] == [place]


def test_relative_paths_are_resolved_where_there_is_a_folder(tmp_path: Path) -> None:
    entry, source = read_entry(ENTRY_KINDS["plugins"], {"path": "echo"}, tmp_path)
    assert source.mistakes == ()
    (plugin,) = with_entry(ENTRY_KINDS["plugins"], entry, tmp_path).plugins
    assert isinstance(plugin, PluginEntry)
    assert plugin.path == str(tmp_path.resolve() / "echo")


def test_relative_paths_of_a_whole_configuration_are_named_by_their_entries() -> None:
    entry, _ = read_entry(ENTRY_KINDS["skills"], {"path": "/s"})
    config = with_entry(ENTRY_KINDS["skills"], entry)
    config.skills.append("s")
    assert [mistake.place for mistake in relative_paths(config, ConfigSource())] == ["skills[1]"]
    assert absolute(config, None) == config


def test_an_unknown_kind_of_entry_names_the_nearest() -> None:
    assert entry_kind("agents") is ENTRY_KINDS["agents"]
    with pytest.raises(NotFoundError, match="no 'agent': did you mean 'agents'"):
        entry_kind("agent")


def test_places_count_the_entries_of_the_file_and_not_those_that_could_be_read() -> None:
    source = ConfigSource(numbers={"agents": [0, 2]})
    assert [source.place("agents", number) for number in range(3)] == ["agents[0]", "agents[2]", "agents[2]"]
    assert source.outer("agents[1].config.model") == "agents[2].config.model"
    assert source.outer("models[1].id") == "models[1].id"
    assert source.outer("retention.events") == "retention.events"
