"""The sandbox of a plugin: its code read-only, a workspace to write, and the allowed network."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from hostler.domain.endpoints import ANY, parse_host_port
from hostler.plugins.environment import OWN_PACKAGES, package_folder
from hostler.plugins.source import OWN_PREFIX, TOKEN_VARIABLE, Folder, Launch, argv_of
from hostler.sandbox.port import SandboxLimits, SandboxSpec
from hostler.sandbox.project_quotas import release
from hostler.sandbox.usage import MAX_DEPTH
from hostler.sandbox.visible_files import certificate_variables, python_paths
from hostler.tools.workspaces.tree_removal import FolderUsage, measure_tree, remove_tree, try_remove_tree
from hostler_protocol.errors import PluginStartError

PASSED = frozenset({"LANG", "LANGUAGE", "TZ", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONUTF8"})
"""Variables passed to a sandboxed plugin besides LC_*, HOSTLER_PLUGIN_* and those of certificates."""
WORKSPACE_VARIABLE = "HOSTLER_PLUGIN_WORKSPACE"
"""Names the folder where a plugin may write; its content is kept."""
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
WORKSPACE_IDLE_SECONDS = 30 * 24 * 3600.0
"""When to remove the unused workspace of a plugin that is no longer configured."""

_log = logging.getLogger(__name__)


def workspace_of(folder: Path, plugin_key: str, limits: SandboxLimits) -> Path:
    """Return the plugin's workspace under `folder`, created if missing. Blocks; raises OSError.

    A workspace over its limits, or nested too deep to be measured, is emptied: otherwise the plugin would be
    killed at every start.
    """
    author, _, name = plugin_key.partition("/")
    workspace = folder / author / name
    if workspace.exists():
        held = measure_tree(workspace, FolderUsage(limits.disk_bytes, limits.files), MAX_DEPTH)
        if not held.whole:
            _log.warning("plugin %s: its workspace holds more than it may, and is emptied", plugin_key)
            release(workspace)
            remove_tree(workspace)
    workspace.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.utime(workspace)  # time of the last use, for the clean-up
    return workspace


def spec_of(source: Folder, launch: Launch, python: str, workspace: Path, data_dir: Path) -> SandboxSpec:
    """Return the plugin's sandbox. Raises PluginStartError if its folder holds more than its code."""
    _check_folder(launch.cwd, data_dir)
    environment = _environment(launch, python, workspace)
    certificates = [Path(path) for path in certificate_variables(environment).values()]
    return SandboxSpec(
        name=f"plugin {launch.identity.key}",
        argv=argv_of(launch, python),
        cwd=launch.cwd,
        environment=environment,
        read_only=(launch.cwd, *python_paths(python, _own_packages(python)), *certificates),
        writable=(workspace,),
        network=allowed_network(source, launch),
        loopback=True,
        unix_sockets=True,
        own_folders=True,
        limits=source.limits,
    )


def allowed_network(source: Folder, launch: Launch) -> tuple[str, ...]:
    """Return the endpoints that the operator allows, and the manifest names or leaves to the operator."""
    if ANY in launch.network:
        return source.network
    allowed = {parse_host_port(text) for text in source.network}
    return tuple(text for text in launch.network if parse_host_port(text) in allowed)


def network_warnings(source: Folder, launch: Launch) -> list[str]:
    """Return warnings about endpoints that only the manifest or only the operator names."""
    if ANY in launch.network:
        return []
    named, allowed = set(map(parse_host_port, launch.network)), set(map(parse_host_port, source.network))
    wanted = [
        f"it wants to reach {place}, which its entry in the configuration does not allow (`network`)"
        for place in sorted(named - allowed)
    ]
    return wanted + [
        f"it may reach {place}, but its manifest does not name it: it is not allowed"
        for place in sorted(allowed - named)
    ]


def _check_folder(folder: Path, data_dir: Path) -> None:
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - without a home the path stays as it is
    if folder in (Path("/"), home) or home.is_relative_to(folder):
        raise PluginStartError(
            f"its folder is {folder}: a plugin can read all of its folder; use a separate one"
        )
    if data_dir.is_relative_to(folder):
        raise PluginStartError(
            f"its folder {folder} holds the host's data ({data_dir}), which it would read: move one of "
            "them, or trust it by name with `level: trusted`"
        )


def _environment(launch: Launch, python: str, workspace: Path) -> dict[str, str]:
    host: Mapping[str, str] = os.environ
    variables = {name: value for name, value in host.items() if _passes(name)}
    variables |= certificate_variables(host)
    if paths := _import_paths(python, host):
        variables["PYTHONPATH"] = os.pathsep.join(paths)
    variables["PATH"] = os.pathsep.join([str(Path(python).parent), SYSTEM_PATH])
    variables |= {"HOME": str(workspace), WORKSPACE_VARIABLE: str(workspace)}
    variables |= {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
    return {**variables, **launch.variables}


def _passes(name: str) -> bool:
    if name.startswith(OWN_PREFIX):
        return name != TOKEN_VARIABLE
    return name in PASSED or name.startswith("LC_")


def _own_packages(python: str) -> list[Path]:
    """Return the folders the plugin's SDK is imported from: site-packages, or `src`."""
    if python != sys.executable:
        return []  # its own environment has its own copies
    return sorted({package_folder(module).parent for module in OWN_PACKAGES})


def _import_paths(python: str, host: Mapping[str, str]) -> list[str]:
    """Return the entries of the host's PYTHONPATH that the plugin needs: those of its SDK."""
    roots = set(map(str, _own_packages(python)))
    return [path for path in host.get("PYTHONPATH", "").split(os.pathsep) if path in roots]


def sweep_workspaces(folder: Path, known: Collection[str], now: float | None = None) -> list[Path]:
    """Remove long unused workspaces of unknown plugins; return what was removed."""
    removed: list[Path] = []
    oldest = (time.time() if now is None else now) - WORKSPACE_IDLE_SECONDS
    for workspace in folder.glob("*/*"):
        key = f"{workspace.parent.name}/{workspace.name}"
        if key not in known and workspace.lstat().st_mtime < oldest:
            _log.info("removing the workspace of plugin %s, unused for long", key)
            release(workspace)
            if try_remove_tree(workspace):
                removed.append(workspace)
    return removed
