"""Every shipped runner is a plugin folder that keeps to the protocol and uses only the SDK."""

from __future__ import annotations

import ast
import asyncio
import os
from pathlib import Path

import pytest

from support.ready_candidates import check_folder

RUNNERS = Path(__file__).parents[2] / "runners"
FOLDERS = sorted(path.parent for path in RUNNERS.glob("*/hostler.yaml"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_it_passes_the_conformance_suite(folder: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(100):
            checks = await check_folder(folder, os.environ)
        assert checks
        assert [f"{check.name}: {check.detail}" for check in checks if not check.ok] == []

    asyncio.run(main())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_it_stands_on_the_public_sdk_alone(folder: Path) -> None:
    for source in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in filter(None, names):
                assert name.split(".")[0] not in ("hostler", "hostler_protocol"), f"{source} imports {name}"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_it_tells_what_it_is(folder: Path) -> None:
    assert (folder / "README.md").is_file()
