"""The sandbox of a plugin, built from its manifest and its entry in the configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostler.host.config import PluginEntry
from hostler.host.config_file import parse_config
from hostler.plugins.sandbox_spec import (
    WORKSPACE_IDLE_SECONDS,
    allowed_network,
    network_warnings,
    spec_of,
    sweep_workspaces,
    workspace_of,
)
from hostler.plugins.source import Folder, Launch
from hostler.sandbox.port import SandboxLimits
from hostler_protocol.errors import InvalidArgumentError, PluginStartError
from hostler_protocol.ids import PluginIdentity

PYTHON = "/opt/python/bin/python"


def launch(folder: Path, *network: str) -> Launch:
    return Launch(PluginIdentity(author="acme", name="echo"), ("python", "main.py"), folder, network=network)


def test_the_network_is_what_both_the_manifest_and_the_operator_name(tmp_path: Path) -> None:
    source = Folder(tmp_path, network=("API.example.com:443", "other.example.com:443"))
    wanted = launch(tmp_path, "api.example.com:443", "third.example.com:80")
    assert allowed_network(source, wanted) == ("api.example.com:443",)
    warnings = " ".join(network_warnings(source, wanted))
    assert "it wants to reach third.example.com:80" in warnings
    assert "it may reach other.example.com:443" in warnings


@pytest.mark.parametrize(
    "place", ["api.example.com", "https://api.example.com:443", "*.example.com:443", "a:0"]
)
def test_a_place_that_is_none_is_an_error_with_an_example(place: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"name:port, like api\.example\.com:443"):
        parse_config(f"plugins: [{{path: ./p, network: ['{place}']}}]", name="hostler.yaml")


def test_limits_of_an_entry_are_checked() -> None:
    config = parse_config("plugins: [{path: ./p, limits: {memory_mib: 64}}]", name="hostler.yaml")
    (entry,) = config.plugins
    assert isinstance(entry, PluginEntry)
    assert entry.limits is not None
    assert entry.limits.memory_mib == 64
    with pytest.raises(InvalidArgumentError, match="did you mean 'memory_mib'"):
        parse_config("plugins: [{path: ./p, limits: {memory_mb: 64}}]", name="hostler.yaml")


def test_a_plugin_sees_its_folder_and_its_workspace_and_nothing_of_the_hosts_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("HOSTLER_PLUGIN_TOKEN", "secret")
    monkeypatch.setenv("HOSTLER_PLUGIN_COLOUR", "blue")
    folder, workspace = tmp_path / "plugin", tmp_path / "workspace"
    folder.mkdir()
    spec = spec_of(Folder(folder), launch(folder), PYTHON, workspace, tmp_path / "data")
    assert spec.read_only[0] == folder
    assert spec.writable == (workspace,)
    assert spec.environment["HOME"] == spec.environment["HOSTLER_PLUGIN_WORKSPACE"] == str(workspace)
    assert spec.environment["HOSTLER_PLUGIN_COLOUR"] == "blue"
    assert "secret" not in spec.environment.values()


@pytest.mark.gate("plugin-folders")
def test_a_folder_that_holds_more_than_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "data" / "workspace"
    with pytest.raises(PluginStartError, match="holds the host's data"):
        spec_of(Folder(tmp_path), launch(tmp_path), PYTHON, workspace, tmp_path / "data")
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (tmp_path, Path("/")):
        with pytest.raises(PluginStartError, match="use a separate one"):
            spec_of(Folder(folder), launch(folder), PYTHON, workspace, Path("/elsewhere"))


@pytest.mark.gate("folder-quotas")
def test_a_workspace_lasts_unless_it_is_too_full_or_its_plugin_is_gone_for_long(tmp_path: Path) -> None:
    limits = SandboxLimits(files=3)
    workspace = workspace_of(tmp_path, "acme/echo", limits)
    assert workspace.stat().st_mode & 0o777 == 0o700
    (workspace / "kept").write_text("x")
    assert (workspace_of(tmp_path, "acme/echo", limits) / "kept").exists()
    for number in range(4):
        (workspace / str(number)).touch()
    assert list(workspace_of(tmp_path, "acme/echo", limits).iterdir()) == []

    gone = workspace_of(tmp_path, "acme/gone", limits)
    old = gone.stat().st_mtime
    os.utime(workspace, (old, old))
    later = old + WORKSPACE_IDLE_SECONDS + 1
    assert sweep_workspaces(tmp_path, {"acme/echo"}, old) == []
    assert sweep_workspaces(tmp_path, {"acme/echo"}, later) == [gone]
    assert workspace.exists()
    assert not gone.exists()
