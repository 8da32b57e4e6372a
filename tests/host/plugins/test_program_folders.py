"""What a sandbox shows of the program of an MCP server that is outside the system's folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.domain.mcp_entry import McpEntry
from hostler.plugins.tool_servers import McpProcesses, _program_folders
from hostler.sandbox.visible_files import CERTIFICATES, certificate_variables

pytestmark = pytest.mark.gate("mcp-folders")


def program(path: Path) -> str:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh")
    path.chmod(0o755)
    return str(path)


def test_the_whole_prefix_unless_what_is_private_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = program(tmp_path / "opt" / "bin" / "server")
    prefix = Path(server).parents[1]
    assert _program_folders(server, "", tmp_path / "data") == [prefix]
    assert _program_folders(server, "", prefix / "data") == [Path(server)]
    monkeypatch.setenv("HOME", str(prefix / "home" / "ann"))
    assert _program_folders(server, "", tmp_path / "data") == [Path(server)]
    monkeypatch.setenv("HOME", str(prefix))
    assert _program_folders(server, "", tmp_path / "data") == [Path(server)]


def test_the_file_alone_elsewhere(tmp_path: Path) -> None:
    server = program(tmp_path / "tools" / "server")
    assert _program_folders(server, "", tmp_path / "data") == [Path(server)]
    assert _program_folders("sh", "/usr/bin:/bin", tmp_path / "data") == []
    assert _program_folders("no-such-program", "/usr/bin", tmp_path / "data") == []


def test_certificates_go_where_a_network_is_allowed(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("")
    inherited = {
        **dict.fromkeys(CERTIFICATES, str(bundle)),
        "SSL_CERT_DIR": str(tmp_path / "missing"),
        "X": "1",
    }
    named = {name: str(bundle) for name in CERTIFICATES if name != "SSL_CERT_DIR"}
    assert certificate_variables(inherited) == named
    assert certificate_variables({"SSL_CERT_FILE": "relative.pem"}) == {}
    processes = McpProcesses(tmp_path / "data", inherited=inherited)
    for network in ([], ["api.example.com:443"]):
        entry = McpEntry(name="s", command=["sh"], network=network, environment={})
        spec = processes._spec(entry, ["sh"], tmp_path, tmp_path / "own", {"CURL_CA_BUNDLE": "/its/own"})
        expected = {**named, "CURL_CA_BUNDLE": "/its/own"} if network else {"CURL_CA_BUNDLE": "/its/own"}
        assert {name: spec.environment[name] for name in CERTIFICATES if name in spec.environment} == expected
        assert (bundle in spec.read_only) == bool(network)
