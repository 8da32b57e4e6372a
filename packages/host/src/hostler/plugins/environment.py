"""A plugin's own Python environment: built by uv once per set of requirements, kept and cleaned up.

It contains the host's own SDK and protocol, copied from where this host imports them, so that host and plugin
always speak the same version and neither is downloaded. The plan (each package with its version and digests)
is stored next to the environment, so that building it again gives the same files.
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
import secrets
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hostler.domain.requirements import check_requires, is_listed, own_packages_mistake, read_requirement
from hostler.plugins.installer import Installer, wheels_of
from hostler.plugins.limits import StartLimits
from hostler.tools.workspaces.tree_removal import try_remove_tree
from hostler_protocol.errors import PluginStartError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

OWN_PACKAGES = {"hostler_sdk": "hostler-sdk", "hostler_protocol": "hostler-protocol", "msgspec": "msgspec"}
"""Packages of the host in every environment: import name and distribution name."""
LENT_PACKAGES = {"hostler_langbot": "hostler-langbot"}
"""Packages of the host that an environment has if it requires them; no index is asked for them either."""
LOCK_POLL_SECONDS = 0.1
PLAN_SUFFIX = ".requires.txt"
PLAN_IDLE_SECONDS = 365 * 24 * 3600.0
"""How long the plan of an unused environment is kept."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Environments:
    """The environments under `folder`, one per digest of its content."""

    def __init__(self, folder: Path, limits: StartLimits) -> None:
        self.folder = folder
        self.limits = limits
        self._used: set[Path] = set()
        self._room = asyncio.Semaphore(limits.environment_builds)

    async def python_for(self, requires: Sequence[str], *, base: Path, allowed: Collection[str] = ()) -> str:
        """Return the interpreter for these requirements; without any, the host's own.

        `allowed` are wheels listed by the operator, written as in `requires`; their paths are relative to
        `base`. Raises PluginStartError with uv's reason.
        """
        if not requires:
            return sys.executable
        return (await self.build(requires, base=base, allowed=allowed))[0]

    async def build(
        self, requires: Sequence[str], *, base: Path, allowed: Collection[str] = (), plan: str | None = None
    ) -> tuple[str, str]:
        """Return the interpreter for these requirements, and the plan it was built by.

        `plan`: the one to build it by, instead of resolving them. Arguments and errors as of `python_for`.
        """
        try:
            check_requires(requires, allowed)
        except ValueError as error:
            raise PluginStartError(f"requires: {error}", lasting=True) from None
        listed = [text for text in requires if is_listed(text, allowed)]
        wheels = wheels_of(listed, base)[1]
        packages = _packages_for(requires, listed)
        target = self.folder / await asyncio.to_thread(_digest, tuple(requires), wheels, packages)
        if plan is not None and await asyncio.to_thread(_text_of, self._plan_of(target)) != plan:
            target = self.folder / await asyncio.to_thread(_digest, (*requires, plan), wheels, packages)
        self._used.add(target)
        python = target / "bin" / "python"
        if not target.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = _lock(self.folder / f"{target.name}.lock", self.limits.environment_build_seconds)
            async with self._room, lock:
                if not target.exists():
                    if plan is not None:
                        await asyncio.to_thread(self._plan_of(target).write_text, plan, "utf-8")
                    await self._build(target, requires, listed, base)
                    await asyncio.to_thread(self._sweep)
        for used in (target, self._plan_of(target)):
            with contextlib.suppress(OSError):
                os.utime(used)  # time of the last use, for the clean-up
        return str(python), await asyncio.to_thread(_text_of, self._plan_of(target)) or ""

    async def resolve(self, requires: Sequence[str], *, base: Path, allowed: Collection[str] = ()) -> str:
        """Return the plan for these requirements as of now, without installing anything.

        Arguments and errors as of `python_for`.
        """
        check_requires(requires, allowed)
        listed = [text for text in requires if is_listed(text, allowed)]
        names = [str(read_requirement(text)) for text in requires if text not in listed]
        lines, wheels = wheels_of(listed, base)
        packages = _packages_for(requires, listed)
        own = {name: importlib.metadata.version(name) for name in packages.values()}

        async def plan(uv: Installer) -> str:
            await uv.make_environment()
            return await uv.plan([*names, *lines], own, wheels)

        return await self._within(plan)

    async def _within(self, work: Callable[[Installer], Awaitable[T]]) -> T:
        """Do work in a folder of its own, which is removed afterwards."""
        self.folder.mkdir(parents=True, exist_ok=True)
        building, seconds = self._new_folder(), self.limits.environment_build_seconds
        try:
            async with asyncio.timeout(seconds):
                building.mkdir(mode=0o700)
                return await work(Installer(building, self.limits))
        except TimeoutError:
            raise PluginStartError(f"its requirements were not resolved within {seconds:g} s") from None
        except OSError as error:
            raise PluginStartError(f"its requirements cannot be resolved: {error}") from error
        finally:
            await asyncio.to_thread(try_remove_tree, building)

    def _new_folder(self) -> Path:
        return self.folder / f".building-{secrets.token_hex(8)}"

    def _plan_of(self, target: Path) -> Path:
        return self.folder / f"{target.name}{PLAN_SUFFIX}"

    async def _build(self, target: Path, requires: Sequence[str], listed: Sequence[str], base: Path) -> None:
        building = self._new_folder()
        _log.info("building the environment for %s", ", ".join(requires))
        try:
            seconds = self.limits.environment_build_seconds
            async with asyncio.timeout(seconds):
                building.mkdir(mode=0o700)
                await self._install(Installer(building, self.limits), target, requires, listed, base)
            await asyncio.to_thread(os.sync)  # so that it is whole after a crash
            (building / "environment").rename(target)
        except TimeoutError:
            text = f"its environment was not built within {seconds:g} s"
            raise PluginStartError(text, lasting=True) from None
        except OSError as error:
            raise PluginStartError(f"its environment cannot be built: {error}") from error
        finally:
            await asyncio.to_thread(try_remove_tree, building)

    async def _install(
        self, uv: Installer, target: Path, requires: Sequence[str], listed: Sequence[str], base: Path
    ) -> None:
        names = [read_requirement(text) for text in requires if text not in listed]
        lines, wheels = wheels_of(listed, base)
        packages = _packages_for(requires, listed)
        own = {name: importlib.metadata.version(name) for name in packages.values()}
        await uv.make_environment()
        await asyncio.to_thread(_copy_own_packages, uv.environment, packages)
        before = _settings_of(uv.environment)
        plan_file = self._plan_of(target)
        known = await asyncio.to_thread(_text_of, plan_file)
        plan = await uv.plan([*map(str, names), *lines], own, wheels) if known is None else known
        await uv.install(plan, wheels)
        if _settings_of(uv.environment) != before:
            raise PluginStartError(
                "a package that it requires writes over the environment's own interpreter or settings",
                lasting=True,
            )
        required = [("it", requirement) for requirement in names]
        required += await asyncio.to_thread(lambda: list(_requirements_of_packages(uv.environment)))
        if (mistake := own_packages_mistake(required, own)) is not None:
            raise PluginStartError(f"its environment cannot be built: {mistake}", lasting=True)
        if known is None:
            await asyncio.to_thread(plan_file.write_text, plan, "utf-8")

    def _sweep(self) -> None:
        """Remove long unused environments, the oldest above the limit, and remains of a crashed build."""
        now = time.time()
        found: list[tuple[float, Path]] = []
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):
                age = now - path.stat().st_mtime
                if path.name.startswith(".building-") and age > self.limits.environment_build_seconds:
                    try_remove_tree(path)
                elif path.name.endswith(PLAN_SUFFIX) and age > PLAN_IDLE_SECONDS:
                    path.unlink(missing_ok=True)
                elif path.is_dir() and path not in self._used and not path.name.startswith("."):
                    found.append((age, path))
        found.sort(key=lambda item: item[0])
        for index, (age, path) in enumerate(found, 1):
            if age > self.limits.environment_idle_seconds or index >= self.limits.environments:
                _log.info("removing the environment %s, unused for %.0f days", path.name, age / 86400)
                try_remove_tree(path)
                path.with_name(f"{path.name}.lock").unlink(missing_ok=True)


def _text_of(path: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        return path.read_text("utf-8")
    return None


def _packages_for(requires: Sequence[str], listed: Collection[str]) -> dict[str, str]:
    """Return the host's packages that an environment with these requirements has, by their import names.

    Raises PluginStartError if the host does not have one itself.
    """
    from packaging.utils import canonicalize_name  # noqa: PLC0415  for requirements only

    named = {canonicalize_name(read_requirement(text).name) for text in requires if text not in listed}
    lent = {module: name for module, name in LENT_PACKAGES.items() if name in named}
    for module, name in lent.items():
        if importlib.util.find_spec(module) is None:
            raise PluginStartError(f"it requires {name}, which this host does not have", lasting=True)
    return OWN_PACKAGES | lent


def _digest(requires: tuple[str, ...], wheels: Sequence[Path], packages: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for part in (sys.version, sys.base_prefix, platform.platform(), *requires):
        digest.update(part.encode() + b"\0")
    for wheel in wheels:
        with contextlib.suppress(OSError):  # its content may change under the same name
            status = wheel.stat()
            digest.update(f"{wheel}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    for module, distribution in packages.items():
        digest.update(importlib.metadata.version(distribution).encode() + b"\0")
        if module.startswith("hostler"):
            root = package_folder(module)
            for path in sorted(root.rglob("*.py")):
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:32]


def _settings_of(environment: Path) -> tuple[object, ...]:
    """Return everything that determines an environment's interpreter."""
    links = {path.name: str(path.readlink()) for path in (environment / "bin").iterdir() if path.is_symlink()}
    python = {name: target for name, target in links.items() if name.startswith("python")}
    return (environment / "pyvenv.cfg").read_bytes(), python


def _requirements_of_packages(environment: Path) -> Iterator[tuple[str, Requirement]]:
    """Yield the requirements of the installed packages from their metadata; runs none of their code."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415  as above

    site_packages = next((environment / "lib").glob("python*/site-packages"))
    for distribution in importlib.metadata.distributions(path=[str(site_packages)]):
        for text in distribution.requires or ():
            with contextlib.suppress(InvalidRequirement):
                yield f"{distribution.name} {distribution.version}", Requirement(text)


def package_folder(module: str) -> Path:
    """Return the folder the host imports a package from. Raises PluginStartError if it is not a folder."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise PluginStartError(f"the host's own package {module} is not installed as files")
    return Path(spec.submodule_search_locations[0])


def _copy_own_packages(environment: Path, packages: Mapping[str, str]) -> None:
    """Copy the host's own packages into an environment, as installed distributions."""
    site_packages = next((environment / "lib").glob("python*/site-packages"))
    for module, name in packages.items():
        folder = site_packages / module
        shutil.copytree(package_folder(module), folder, ignore=shutil.ignore_patterns("__pycache__"))
        distribution = importlib.metadata.distribution(name)
        stem = f"{name.replace('-', '_')}-{distribution.version}"
        info = site_packages / f"{stem}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(distribution.read_text("METADATA") or "", "utf-8")
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: hostler\nRoot-Is-Purelib: true\n")
        (info / "INSTALLER").write_text("hostler\n")
        files = [path for top in (folder, info) for path in sorted(top.rglob("*")) if path.is_file()]
        lines = [f"{path.relative_to(site_packages)},,\n" for path in files]
        (info / "RECORD").write_text("".join([*lines, f"{info.name}/RECORD,,\n"]), "utf-8")


@contextlib.asynccontextmanager
async def _lock(path: Path, seconds: float) -> AsyncIterator[None]:
    """Hold the lock of one environment against other hosts on this machine; it ends with the process."""
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
