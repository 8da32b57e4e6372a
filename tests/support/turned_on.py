"""Encryption at rest, turned on in a test."""

from __future__ import annotations

from pathlib import Path

from hostler.host.config import ConfigFile
from hostler.secrets.key_ring import new_key
from support.stepping import Stage


async def turn_on(stage: Stage, folder: Path) -> bytes:
    """Configure a master key in a file, and return it."""
    path = folder / "master.key"
    if not path.exists():
        path.write_text(new_key().hex())
    diff = await stage.host.apply(ConfigFile(master_key=[f"file:{path}"]), actor="test")
    assert not [problem for problem in diff.problems if problem.severity == "error"]
    return bytes.fromhex(path.read_text())
