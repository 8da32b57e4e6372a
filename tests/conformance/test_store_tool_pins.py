"""Tools of servers as they were approved and as they were last seen, on both databases."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler.domain.tool_pins import ListedTool
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit, tool_pins
from support.databases import read, write

pytestmark = pytest.mark.gate("tool-pins")

OWNER = "mcp:files"


def sights(**texts: str) -> dict[str, ListedTool]:
    return {
        name: ListedTool(name, f"digest of {text}", {"name": name, "description": text})
        for name, text in texts.items()
    }


def see(database: SqlDatabase, ws: str = "w", **texts: str) -> dict[str, str]:
    known = write(database, lambda tx: tool_pins.see(tx, ws, OWNER, sights(**texts)))
    return {name: pin.state for name, pin in known.items()}


def facts(database: SqlDatabase, ws: str = "w") -> list[tuple[str, str, str]]:
    found: list[Any] = read(database, lambda tx: audit.page(tx, ws))
    return [(one.actor, one.action, one.target) for one in reversed(found)]


def approve(database: SqlDatabase, tool: str, digest: str, ws: str = "w") -> bool:
    done: bool = write(
        database, lambda tx: tool_pins.approve(tx, ws, OWNER, tool, digest=digest, actor="key:ann")
    )
    return done


def test_what_is_seen_first_is_approved_and_what_changes_or_comes_later_waits(database: SqlDatabase) -> None:
    assert see(database, read="reads", write="writes") == {"read": "approved", "write": "approved"}
    assert see(database, read="reads", write="writes") == {"read": "approved", "write": "approved"}
    later = {"read": "changed", "write": "approved", "delete": "new"}
    assert see(database, read="reads, and tells", delete="deletes") == later
    known = read(database, lambda tx: tool_pins.of_owner(tx, "w", OWNER))
    assert known["read"].definition == {"name": "read", "description": "reads"}
    assert known["read"].seen_definition == {"name": "read", "description": "reads, and tells"}
    assert known["delete"].definition is None
    assert facts(database) == [
        ("host", "tool.first_seen", "mcp:files#read"),
        ("host", "tool.first_seen", "mcp:files#write"),
        ("host", "tool.changed", "mcp:files#read"),
        ("host", "tool.added", "mcp:files#delete"),
    ]
    assert see(database, read="reads") == {**later, "read": "approved"}
    assert facts(database)[-1] == ("host", "tool.changed_back", "mcp:files#read")


def test_an_approval_is_for_what_was_looked_at_and_nothing_else(database: SqlDatabase) -> None:
    see(database, read="reads")
    see(database, read="tells")
    see(database, read="tells all")
    assert not approve(database, "read", "digest of tells")
    assert not approve(database, "write", "digest of tells all")
    assert not approve(database, "read", "digest of tells all", ws="v")
    assert approve(database, "read", "digest of tells all")
    assert see(database, read="tells all") == {"read": "approved"}
    assert facts(database)[-1] == ("key:ann", "tool.approved", "mcp:files#read")


def test_workspaces_know_nothing_of_each_other(database: SqlDatabase) -> None:
    see(database, read="reads")
    assert see(database, ws="v", read="another") == {"read": "approved"}
    assert see(database, ws="w", read="reads") == {"read": "approved"}
    write(
        database, lambda tx: tool_pins.record_refusal(tx, "w", f"{OWNER}#read", digest="d", reason="changed")
    )
    assert facts(database)[-1] == ("host", "tool.refused", "mcp:files#read")
    assert [fact[1] for fact in facts(database, "v")] == ["tool.first_seen"]


def test_a_server_that_invents_ever_new_tools_fills_nothing(database: SqlDatabase, monkeypatch: Any) -> None:
    monkeypatch.setattr(tool_pins, "MAX_PINS", 3)
    see(database, a="a", b="b")
    assert len(see(database, a="a!", b="b", c="c", d="d", e="e")) == 3
    assert read(database, lambda tx: tool_pins.of_owner(tx, "w", OWNER))["a"].state == "changed"
    assert json.dumps(facts(database)).count("tool.added") == 1
