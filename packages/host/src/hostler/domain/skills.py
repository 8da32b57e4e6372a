"""Skills: their pins, whether they may be used, and the tools through which runs use them."""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.domain.record import Record
from hostler_protocol.grants import ToolResource

SKILL_TOOLS = "skill"
"""The `tool_type` of tools of skills: granted with the skill."""

SkillStatus = Literal["new", "known", "moved", "changed", "restored"]


class SkillPin(Record):
    """A skill as confirmed, and as last seen. `source` is a path on the host.

    Times in UTC epoch milliseconds. `confirmed_by` is None for the version first seen, which needs no
    confirmation.
    """

    name: str
    source: str
    version: str | None
    digest: str
    seen_version: str | None
    seen_digest: str
    recorded_at: int = 0
    confirmed_at: int | None = None
    confirmed_by: str | None = None

    @property
    def may_be_used(self) -> bool:
        """Whether its contents are those first recorded or last confirmed."""
        return self.digest == self.seen_digest


def skill_status(known: SkillPin | None, source: str, digest: str) -> SkillStatus:
    """Classify a skill that was read with this digest. `known`: unchanged since it was last seen."""
    if known is None:
        return "new"
    if digest == known.seen_digest:
        return "known" if source == known.source else "moved"
    return "restored" if digest == known.digest else "changed"


def skill_tool(skill_name: str) -> str:
    """Return the name of a skill's tool."""
    return f"skill.{skill_name}"


def skill_of(tool: ToolResource) -> str | None:
    """Return the skill of a skill's tool; None for every other tool."""
    if tool.tool_type != SKILL_TOOLS:
        return None
    return tool.tool_name.partition(".")[2]


class SkillFile(Record):
    """A file of a skill, by its path below the skill's folder."""

    path: str
    size_bytes: int
    sha256: str


class SkillText(Record):
    """The contents of a SKILL.md. `instructions` is the text below its front matter."""

    name: str
    description: str
    version: str | None
    compatibility: str | None
    instructions: str


class Skill(Record):
    """A skill read from its folder. The digest covers names and contents of all its files."""

    text: SkillText
    source: str
    digest: str
    files: dict[str, SkillFile] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The skill's name, which is also its folder's name."""
        return self.text.name
