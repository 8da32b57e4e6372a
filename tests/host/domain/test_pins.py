"""Pins of tools and skills: what a new reading means for what was approved."""

from __future__ import annotations

import pytest

from hostler.domain.skills import SkillPin, skill_of, skill_status, skill_tool
from hostler.domain.tool_pins import ListedTool, StoredPin, pin_changes
from hostler_protocol.grants import ToolResource


def listed(**digests: str) -> dict[str, ListedTool]:
    return {name: ListedTool(name, digest, {"name": name}) for name, digest in digests.items()}


def test_the_first_list_is_approved_and_later_additions_wait() -> None:
    first = {change.pin.tool: change.pin for change in pin_changes({}, listed(a="1", b="1"))}
    assert [pin.state for pin in first.values()] == ["approved", "approved"]
    (added,) = pin_changes(first, listed(a="1", b="1", c="1"))
    assert (added.pin.tool, added.pin.state, added.action) == ("c", "new", "tool.added")


@pytest.mark.parametrize(
    ("approved", "seen", "now", "state", "action"),
    [
        ("1", "1", "2", "changed", "tool.changed"),
        ("1", "2", "3", "changed", "tool.changed"),
        ("1", "2", "1", "approved", "tool.changed_back"),
        (None, "1", "2", "new", "tool.changed"),
    ],
)
def test_a_change_waits_until_it_is_approved_or_taken_back(
    approved: str | None, seen: str, now: str, state: str, action: str
) -> None:
    known = {"a": StoredPin("a", approved, None if approved is None else {}, seen, {})}
    (change,) = pin_changes(known, listed(a=now))
    assert (change.pin.state, change.action, change.pin.digest) == (state, action, approved)
    assert pin_changes(known, listed(a=seen)) == []
    assert pin_changes(known, {}) == []


@pytest.mark.parametrize(
    ("source", "digest", "status"),
    [
        ("/here", "seen", "known"),
        ("/there", "seen", "moved"),
        ("/here", "confirmed", "restored"),
        ("/here", "other", "changed"),
    ],
)
def test_a_skill_is_compared_with_what_was_seen_and_confirmed(source: str, digest: str, status: str) -> None:
    pin = SkillPin("s", "/here", None, "confirmed", None, "seen")
    assert skill_status(pin, source, digest) == status
    assert skill_status(None, source, digest) == "new"
    assert not pin.may_be_used


def test_the_tool_of_a_skill_names_it() -> None:
    tool = ToolResource(tool_name=skill_tool("pdf.fill"), tool_type="skill")
    assert skill_of(tool) == "pdf.fill"
    assert skill_of(ToolResource(tool_name="skill.pdf", tool_type="plugin")) is None
