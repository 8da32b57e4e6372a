"""Skill folders for tests."""

from __future__ import annotations

from pathlib import Path

SKILL = """---
name: {name}
description: Brews tea. Use it when somebody is thirsty.
license: MIT
metadata:
  author: acme
  version: "1.2"
allowed-tools: Bash(rm:*)
---
# Brewing

Read references/times.md first.
"""


def make_skill(folder: Path, name: str = "brewing", text: str = SKILL) -> Path:
    """A skill with one file, in a folder of its name."""
    root = folder / name
    (root / "references").mkdir(parents=True)
    (root / "SKILL.md").write_text(text.replace("{name}", name))
    (root / "references" / "times.md").write_text("green: 2 min\nblack: 4 min\n")
    return root
