"""A plugin's own Python environment: built once per set of requirements by uv, kept, and swept.

It holds the host's own builds of the SDK and the protocol, copied from where this host imports them, so
that host and plugin always speak the same version and nothing is downloaded for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import platform
import re
import secrets
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from uv import find_uv_bin

from hostler.plugins.limits import StartLimits
from hostler_protocol.errors import PluginStartError

OWN_PACKAGES = {"hostler_sdk": "hostler-sdk", "hostler_protocol": "hostler-protocol", "msgspec": "msgspec"}
"""What every environment holds as this host has it: import name and distribution name."""
LOCK_POLL_SECONDS = 0.1
MAX_UV_OUTPUT_BYTES = 64 * 1024
MAX_REASON_CHARS = 600

_log = logging.getLogger(__name__)


class Environments:
    """The environments under `folder`, one per digest of what is in it."""

    def __init__(self, folder: Path, limits: StartLimits) -> None:
        self.folder = folder
        self.limits = limits
        self._used: set[Path] = set()

    async def python_for(self, requires: Sequence[str], *, base: Path) -> str:
        """The interpreter for these requirements: the host's own where there are none.

        Paths in requirements are relative to `base`. PluginStartError with uv's reason.
        """
        if not requires:
            return sys.executable
        target = self.folder / await asyncio.to_thread(_digest, tuple(requires), base)
        self._used.add(target)
        python = target / "bin" / "python"
        if not target.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            async with _lock(self.folder / f"{target.name}.lock", self.limits.environment_build_seconds):
                if not target.exists():
                    await self._build(target, requires, base)
                    await asyncio.to_thread(self._sweep)
        with contextlib.suppress(OSError):
            os.utime(target)  # when it was last used, for the sweep
        return str(python)

    async def _build(self, target: Path, requires: Sequence[str], base: Path) -> None:
        building = self.folder / f".building-{secrets.token_hex(8)}"
        _log.info("building the environment for %s", ", ".join(requires))
        try:
            seconds = self.limits.environment_build_seconds
            async with asyncio.timeout(seconds):
                python = ["--python", sys.executable, "--no-python-downloads", "--no-project"]
                await _uv(["venv", "--relocatable", *python, str(building)], base)
                own = await asyncio.to_thread(_copy_own_packages, building)
                arguments = ["--python", str(building / "bin" / "python"), "--no-progress"]
                await _uv(["pip", "install", *arguments, *own, *requires], base)
            await asyncio.to_thread(os.sync)  # a half written environment must not look whole after a crash
            building.rename(target)
        except TimeoutError:
            raise PluginStartError(f"its environment was not built within {seconds:g} s") from None
        except OSError as error:
            raise PluginStartError(f"its environment cannot be built: {error}") from error
        finally:
            await asyncio.to_thread(shutil.rmtree, building, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what was not used for long, the oldest beyond the limit, and what a crash half built."""
        now = time.time()
        found: list[tuple[float, Path]] = []
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):
                age = now - path.stat().st_mtime
                if path.name.startswith(".building-") and age > self.limits.environment_build_seconds:
                    shutil.rmtree(path, ignore_errors=True)
                elif path.is_dir() and path not in self._used and not path.name.startswith("."):
                    found.append((age, path))
        found.sort(key=lambda item: item[0])
        for index, (age, path) in enumerate(found, 1):
            if age > self.limits.environment_idle_seconds or index >= self.limits.environments:
                _log.info("removing the environment %s, unused for %.0f days", path.name, age / 86400)
                shutil.rmtree(path, ignore_errors=True)
                path.with_name(f"{path.name}.lock").unlink(missing_ok=True)


def _digest(requires: tuple[str, ...], base: Path) -> str:
    digest = hashlib.sha256()
    for part in (sys.version, sys.base_prefix, platform.platform(), *requires):
        digest.update(part.encode() + b"\0")
    for requirement in requires:
        with contextlib.suppress(OSError):  # a local file: its content may change under the same name
            path = base / requirement
            status = path.stat()
            digest.update(f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    for module, distribution in OWN_PACKAGES.items():
        digest.update(importlib.metadata.version(distribution).encode() + b"\0")
        if module.startswith("hostler"):
            root = package_folder(module)
            for path in sorted(root.rglob("*.py")):
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:32]


def package_folder(module: str) -> Path:
    """Where the host imports a package from. PluginStartError where that is no folder."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise PluginStartError(f"the host's own package {module} is not installed as files")
    return Path(spec.submodule_search_locations[0])


def _copy_own_packages(environment: Path) -> list[str]:
    """Put the host's own packages into an environment as installed; the requirements that pin them."""
    site_packages = next((environment / "lib").glob("python*/site-packages"))
    pins: list[str] = []
    for module, name in OWN_PACKAGES.items():
        folder = site_packages / module
        shutil.copytree(package_folder(module), folder, ignore=shutil.ignore_patterns("__pycache__"))
        distribution = importlib.metadata.distribution(name)
        pins.append(f"{name}=={distribution.version}")
        stem = f"{name.replace('-', '_')}-{distribution.version}"
        info = site_packages / f"{stem}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(distribution.read_text("METADATA") or "", "utf-8")
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: hostler\nRoot-Is-Purelib: true\n")
        (info / "INSTALLER").write_text("hostler\n")
        files = [path for top in (folder, info) for path in sorted(top.rglob("*")) if path.is_file()]
        lines = [f"{path.relative_to(site_packages)},,\n" for path in files]
        (info / "RECORD").write_text("".join([*lines, f"{info.name}/RECORD,,\n"]), "utf-8")
    return pins


@contextlib.asynccontextmanager
async def _lock(path: Path, seconds: float) -> AsyncIterator[None]:
    """Hold the lock of one environment against other hosts on this machine; it dies with the process."""
    with path.open("ab") as file:
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        await asyncio.sleep(LOCK_POLL_SECONDS)
                    else:
                        break
        except TimeoutError:
            text = f"another host has been building the same environment for {seconds:g} s"
            raise PluginStartError(text) from None
        yield


async def _uv(arguments: Sequence[str], cwd: Path) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOSTLER_", "PYTHON")) and name != "VIRTUAL_ENV"
    }
    process = await asyncio.create_subprocess_exec(
        find_uv_bin(),
        "--color",
        "never",
        *arguments,
        cwd=cwd,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    said = b""
    try:
        while part := await process.stderr.read(65536):
            said = (said + part)[-MAX_UV_OUTPUT_BYTES:]
        status = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if status != 0:
        raise PluginStartError(f"its environment cannot be built: {_reason(said.decode('utf-8', 'replace'))}")


_DECORATION = re.compile(r"^[\s×╰─▶│├→·]*(error:|Caused by:)?\s*", re.UNICODE)


def _reason(said: str) -> str:
    """What uv says, without its drawing, in a line."""
    lines = said.splitlines()
    first = next((i for i, line in enumerate(lines) if line.lstrip().startswith(("×", "error"))), 0)
    plain = [_DECORATION.sub("", line).strip() for line in lines[first:]]
    text = " ".join(line for line in plain if line)
    return text[:MAX_REASON_CHARS] or "uv did not say why"
