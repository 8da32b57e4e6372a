"""What a configuration may say of an MCP server, and what it means for each of its tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.domain.mcp_entry import McpEntry, check_mcp_entry
from hostler.domain.tool_entries import entries_by_key
from hostler.host.config import ConfigFile
from hostler.host.config_file import parse_config
from hostler_protocol.errors import InvalidArgumentError

URL = "https://example.org/mcp"


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({}, "give either a command or a url"),
        ({"command": ["x"], "url": URL}, "give either a command or a url"),
        ({"command": []}, "command is a program and its arguments"),
        ({"command": ["x"], "token": "env:T"}, "token does not go with command"),
        (
            {"command": ["x"], "environment": {"API_TOKEN": "abc"}},
            "API_TOKEN looks like a secret: write env:NAME",
        ),
        ({"command": ["x"], "environment": {"HOSTLER_KEY": "env:K"}}, "'HOSTLER_KEY' is no name"),
        ({"command": ["x"], "network": ["example.org"]}, "write name:port"),
        ({"command": ["x"], "level": "trusted", "read": ["/srv"]}, "read does not go with level: trusted"),
        ({"url": "ftp://example.org"}, "url is no address like"),
        ({"url": "https://me:pw@example.org/mcp"}, "url holds a user or a password"),
        ({"url": URL, "token": "abc"}, "token is no reference"),
        ({"url": URL, "headers": {"Authorization": "Bearer abc"}}, "Authorization looks like a secret"),
        ({"url": URL, "headers": {"Host": "a"}}, "'Host' is no header that can be set"),
        ({"url": URL, "headers": {"Mcp-Session-Id": "a"}}, "is no header that can be set"),
        ({"url": URL, "headers": {"X-A": "a\r\nX-B: b"}}, "X-A holds a line break"),
        ({"url": URL, "token": "env:T", "headers": {"authorization": "env:T"}}, "both say Authorization"),
        ({"url": URL, "cwd": "/srv"}, "cwd does not go with url"),
        ({"url": URL, "allow": [""]}, "is no pattern"),
    ],
)
def test_an_entry_that_cannot_be_used_is_refused_with_what_would_be_right(
    said: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_mcp_entry(McpEntry(name="files", **said))
    assert wrong in caught.value.message
    assert caught.value.message.startswith("tools: mcp 'files': ")
    assert "abc" not in caught.value.message


def test_the_configuration_file_names_the_nearest_right_key() -> None:
    text = "tools: [{mcp: {name: files, comand: [npx]}}]"
    with pytest.raises(InvalidArgumentError, match=r"tools.*comand: unknown key; did you mean 'command'"):
        parse_config(text, name="hostler.yaml")
    text = "tools: [{mcp: {name: files, command: [npx], effects: {a: reconcilable}}}]"
    with pytest.raises(InvalidArgumentError, match="reconcilable"):
        parse_config(text, name="hostler.yaml")


def test_the_two_forms_of_the_specification_are_read() -> None:
    text = """
tools:
  - mcp: {name: files, command: [npx, "-y", some-server]}
  - mcp: {name: web, url: "https://example.org/mcp"}
"""
    config: ConfigFile = parse_config(text, name="hostler.yaml")
    assert list(entries_by_key(config.tools)) == ["mcp:files", "mcp:web"]
    assert [entry.mcp.level for entry in config.tools if entry.mcp] == ["sandboxed", "sandboxed"]


def test_paths_are_those_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "serve").symlink_to("/bin/true")
    text = "tools: [{mcp: {name: f, command: [./serve, ./a], cwd: work, read: [in], write: [/out]}}]"
    (entry,) = parse_config(text, name="hostler.yaml", base=tmp_path).tools
    assert entry.mcp is not None
    assert entry.mcp.command == [str(tmp_path / "serve"), "./a"]
    assert (entry.mcp.cwd, entry.mcp.read, entry.mcp.write) == (
        str(tmp_path / "work"),
        [str(tmp_path / "in")],
        ["/out"],
    )


def test_of_several_patterns_the_one_that_says_most_counts() -> None:
    entry = McpEntry(
        name="files",
        url=URL,
        allow=["read_*", "write_file"],
        deny=["*_secret"],
        approval={"*": "required", "read_*": "never"},
        effects={"read_*": "pure"},
    )
    allowed = [name for name in ("read_a", "read_secret", "write_file", "delete") if entry.allows(name)]
    assert allowed == ["read_a", "write_file"]
    assert (entry.approval_of("read_a"), entry.approval_of("write_file")) == ("never", "required")
    assert entry.effect_of("read_a", read_only=False, idempotent=False) == "pure"


def test_what_a_server_claims_of_its_tools_counts_only_where_the_operator_says_so() -> None:
    entry = McpEntry(name="files", url=URL)
    assert entry.effect_of("a", read_only=True, idempotent=True) == "default"
    trusting = McpEntry(name="files", url=URL, trust_annotations=True, effects={"b": "default"})
    assert trusting.effect_of("a", read_only=True, idempotent=True) == "pure"
    assert trusting.effect_of("a", read_only=False, idempotent=True) == "idempotent"
    assert trusting.effect_of("b", read_only=True, idempotent=True) == "default"
