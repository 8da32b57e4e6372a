"""The sources of plugins, and the commands that start them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec

from hostler.domain.plugin_pins import PinKind
from hostler.domain.record import Record
from hostler.domain.requirements import check_requires
from hostler.plugins.limits import PLUGIN_LIMITS
from hostler.plugins.manifest import read_manifest
from hostler.sandbox.port import SandboxLimits
from hostler_protocol.errors import PluginStartError
from hostler_protocol.ids import PluginIdentity

Level = Literal["trusted", "sandboxed"]
DEFAULT_COMMAND = ("python", "-m", "hostler_sdk.serve")
INHERITED_VARIABLES = frozenset(
    {
        "CURL_CA_BUNDLE",
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "REQUESTS_CA_BUNDLE",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
        "TZ",
        "USER",
    }
)
"""Variables passed to a trusted plugin besides LC_*, PYTHON* and proxies without a password."""
OWN_PREFIX = "HOSTLER_PLUGIN_"
WITHOUT_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/nonexistent"}
"""Settings by which Python neither reads nor writes bytecode beside the code, which no pin covers."""
TOKEN_VARIABLE = "HOSTLER_PLUGIN_TOKEN"  # noqa: S105 - the name of a variable that is never passed on
PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
MAX_WATCHED_FILES = 2000
"""Files of a plugin folder that are checked for changes, and at most as many folders."""


class Folder(Record):
    """A plugin folder with a hostler.yaml, or one of LangBot."""

    path: Path
    level: Level = "sandboxed"
    network: tuple[str, ...] = ()
    """Endpoints the operator allows, among those its manifest names."""
    allow_requires: tuple[str, ...] = ()
    """Wheels by path or address that the operator allows, written as in its manifest."""
    limits: SandboxLimits = PLUGIN_LIMITS
    pin: PinKind | None = None
    """What of it may not change without the operator; None: no entry of the configuration names it."""


class SingleFile(Record):
    """A runner class of one Python file, which is trusted; its plugin is `local/<stem>-<digest>`."""

    path: Path
    class_name: str


class Remote(Record):
    """A remote plugin process that dials in; its token is bound to `key`, `author/name`."""

    key: str


PluginSource = Folder | SingleFile | Remote


class Launch(Record):
    """The command of a plugin; `python` in `argv` means the interpreter of its environment."""

    identity: PluginIdentity
    argv: tuple[str, ...]
    cwd: Path
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    requires: tuple[str, ...] = ()
    allow_requires: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What its operator should know about it."""


def identity_of(source: PluginSource) -> PluginIdentity:
    """Return the plugin's identity. Raises PluginStartError if its manifest is missing or wrong."""
    match source:
        case Remote(key=key):
            author, _, name = key.partition("/")
            return PluginIdentity(author=author, name=name)
        case SingleFile(path=path):
            return _local_identity(path)
        case Folder(path=path):
            return read_manifest(path).identity


def place_of(source: PluginSource) -> str:
    """Describe where a plugin comes from, for people."""
    match source:
        case Folder(path=path):
            return str(path)
        case SingleFile(path=path, class_name=name):
            return f"{path}:{name}"
        case Remote():
            return "a process that dials in"


def is_same_place(one: PluginSource, other: PluginSource) -> bool:
    """Whether both are equal, or the same folder with other settings."""
    if isinstance(one, Folder) and isinstance(other, Folder):
        return os.path.realpath(one.path) == os.path.realpath(other.path)
    return one == other


def launch_of(source: Folder | SingleFile) -> Launch:
    """Read the current command of a plugin. Raises PluginStartError that says what is wrong."""
    if isinstance(source, SingleFile):
        return _launch_file(source)
    manifest = read_manifest(source.path)
    stated = manifest.file
    try:
        check_requires(stated.requires, source.allow_requires)
    except ValueError as error:
        raise PluginStartError(f"{source.path}: requires: {error}") from error
    return Launch(
        identity=manifest.identity,
        argv=tuple(stated.command) or DEFAULT_COMMAND,
        cwd=Path(os.path.realpath(source.path)),
        variables={
            "HOSTLER_PLUGIN_MANIFEST": manifest.json,
            **_names(manifest.identity),
            **(WITHOUT_BYTECODE if source.pin == "files" else {}),
        },
        requires=tuple(stated.requires),
        allow_requires=source.allow_requires,
        network=tuple(stated.network),
        notes=manifest.notes,
    )


def _local_identity(path: Path) -> PluginIdentity:
    from hostler_sdk.loading import local_identity  # noqa: PLC0415  the SDK is for hosts with plugins

    return local_identity(path)


def _launch_file(source: SingleFile) -> Launch:
    path = source.path
    if not path.is_file():
        raise PluginStartError(f"there is no file {path}; a runner is named like path/to/file.py:Class")
    identity = _local_identity(path)
    real = Path(os.path.realpath(path))
    return Launch(
        identity=identity,
        argv=(*DEFAULT_COMMAND, "--runner", f"{real}:{source.class_name}"),
        cwd=real.parent,
        variables=_names(identity),
    )


def _names(identity: PluginIdentity) -> dict[str, str]:
    return {
        "HOSTLER_PLUGIN_AUTHOR": identity.author,
        "HOSTLER_PLUGIN_NAME": identity.name,
        "HOSTLER_PLUGIN_VERSION": identity.version,
    }


def process_environment(
    launch: Launch, python: str = sys.executable, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the complete environment of a plugin process: an allow-list, so that it has no secret of the
    host."""
    own_environment = python != sys.executable
    variables = {name: value for name, value in inherited.items() if _passes(name, value)}
    if own_environment:
        for name in ("PYTHONPATH", "PYTHONHOME"):
            variables.pop(name, None)
    folder = str(Path(python).parent)
    variables["PATH"] = os.pathsep.join([folder, variables.get("PATH", os.defpath)])
    variables["PYTHONUNBUFFERED"] = "1"
    variables["PYTHONIOENCODING"] = "utf-8"
    return {**variables, **launch.variables}


def _passes(name: str, value: str) -> bool:
    if name.lower() in PROXIES:
        return "@" not in value
    if name.startswith(OWN_PREFIX):
        return name != TOKEN_VARIABLE
    return name in INHERITED_VARIABLES or name.startswith(("LC_", "PYTHON"))


def argv_of(launch: Launch, python: str = sys.executable) -> list[str]:
    """Return the command with its interpreter filled in."""
    first, *rest = launch.argv
    return [python if first in ("python", "python3") else first, *rest]


def fingerprint(source: PluginSource) -> tuple[object, ...]:
    """Return a value that changes with the plugin's files."""
    match source:
        case Remote():
            return ()
        case SingleFile(path=path):
            return _stamp(path)
        case Folder(path=path):
            from hostler_sdk.loading import MANIFEST_NAME  # noqa: PLC0415  as above

            return (_stamp(path / MANIFEST_NAME), *_stamps_below(path))


def _stamps_below(top: Path) -> list[tuple[object, ...]]:
    """Return stamps of the files below a folder, up to MAX_WATCHED_FILES and as many folders.

    Skips what cannot be listed, and follows no links.
    """
    stamps: list[tuple[object, ...]] = []
    folders, looked = [str(top)], 0
    while folders and looked < MAX_WATCHED_FILES and len(stamps) < MAX_WATCHED_FILES:
        folder = folders.pop(0)
        looked += 1
        try:
            with os.scandir(folder) as entries:
                found = sorted(islice(entries, MAX_WATCHED_FILES), key=lambda entry: entry.name)
            below = {entry.path for entry in found if entry.is_dir(follow_symlinks=False)}
        except OSError:
            continue
        stamps += [_stamp(Path(entry.path)) for entry in found if entry.path not in below]
        folders += [
            entry.path
            for entry in found
            if entry.path in below and not entry.name.startswith((".", "__pycache__"))
        ]
    return stamps[:MAX_WATCHED_FILES]


def _stamp(path: Path) -> tuple[object, ...]:
    try:
        status = path.stat()
    except OSError:
        return (str(path),)
    return (str(path), status.st_mtime_ns, status.st_size)
