"""A runner that has a secret and says which, by its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

KEEPER_RUNNER = "plugin:test/keeper/default"
_MANIFEST = """
plugin: {author: test, name: keeper, version: 1.0.0}
runners: [{name: default, entry: "keeper:Keeper"}]
"""
_CODE = '''
"""Says which secret it has."""

import hashlib

from hostler_sdk import Runner, message


class Keeper(Runner):
    """Says which secret it has."""

    config = [{"name": "key", "type": "secret"}]

    async def run(self, ctx):
        yield message(hashlib.sha256(ctx.config["key"].encode()).hexdigest()[:12])
'''


def keeper_plugin(folder: Path) -> Path:
    """Write the plugin into a new folder."""
    folder.mkdir(parents=True)
    (folder / "keeper.py").write_text(_CODE)
    (folder / "hostler.yaml").write_text(_MANIFEST)
    return folder


def keeper(key: str, name: str = "keeper", **fields: Any) -> dict[str, Any]:
    """An agent with this secret, or a reference to one."""
    return {"name": name, "runner": KEEPER_RUNNER, "config": {"key": key}, **fields}


def mark_of(secret: str) -> str:
    """How the runner names a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()[:12]
