"""Skills: what is known of one, whether it may be used, and the tool that a run reaches it by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hostler_protocol.grants import ToolResource

SKILL_TOOLS = "skill"
"""The `tool_type` of tools that stand for a skill: a run has them because it has the skill."""

SkillStatus = Literal["new", "known", "moved", "changed", "restored"]


@dataclass(frozen=True, slots=True)
class SkillPin:
    """A skill as it was confirmed, and as it was last seen. Its source is a path on the host.

    Times in UTC epoch milliseconds. `confirmed_by` is None where nobody had to: the first sight counts.
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
        """Whether it is what was recorded at first, or what a person confirmed since."""
        return self.digest == self.seen_digest


def skill_status(known: SkillPin | None, source: str, digest: str) -> SkillStatus:
    """What it means to see a skill with this digest now. `known`: it is as it was last seen."""
    if known is None:
        return "new"
    if digest == known.seen_digest:
        return "known" if source == known.source else "moved"
    return "restored" if digest == known.digest else "changed"


def skill_tool(skill_name: str) -> str:
    """The tool that a skill is reached by."""
    return f"skill.{skill_name}"


def skill_of(tool: ToolResource) -> str | None:
    """The skill that a tool stands for; None for every other tool."""
    if tool.tool_type != SKILL_TOOLS:
        return None
    return tool.tool_name.partition(".")[2]


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill, by its path below the skill's folder."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SkillText:
    """What a SKILL.md says. `instructions` is what stands below its front matter."""

    name: str
    description: str
    version: str | None
    compatibility: str | None
    instructions: str


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as read from its folder. The digest is of all its files, names and contents."""

    text: SkillText
    source: str
    digest: str
    files: dict[str, SkillFile] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is called, and its folder too."""
        return self.text.name
