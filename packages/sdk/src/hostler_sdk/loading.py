"""Load a Plugin from a plugin folder, a single file or an installed package."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from hostler_protocol.ids import PluginIdentity
from hostler_sdk.plugin import OfferedChannel, OfferedRunner, Plugin
from hostler_sdk.runner import ManifestError, Runner, Statements, manifest_of
from hostler_sdk.tools import Tool

MANIFEST_NAME = "hostler.yaml"
MANIFEST_VARIABLE = "HOSTLER_PLUGIN_MANIFEST"
ENTRY_POINT_GROUP = "hostler.runners"
CHANNEL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")


class PluginLoadError(Exception):
    """A plugin cannot be served. The text, for people, says what is wrong and what would be right."""


class PluginStatement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`plugin:` of hostler.yaml."""

    author: str
    name: str
    version: str | int | float = "0.0.0"
    label: str | dict[str, str] | None = None
    description: str | dict[str, str] | None = None


class ChannelStatement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of `channels:` in hostler.yaml."""

    name: str
    entry: str


class PluginFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """hostler.yaml: the plugin's identity, its runners, tools and channels, and its requirements."""

    plugin: PluginStatement
    runners: list[Statements] = []
    tools: list[str] = []
    channels: list[ChannelStatement] = []
    requires: list[str] = []
    network: list[str] = []
    command: list[str] = []

    @property
    def identity(self) -> PluginIdentity:
        """The plugin's identity."""
        stated = self.plugin
        return PluginIdentity(author=stated.author, name=stated.name, version=str(stated.version))


def read_plugin_file(value: Any, source: str = MANIFEST_NAME) -> PluginFile:
    """Check a parsed hostler.yaml. Raises PluginLoadError with the wrong field and the reason."""
    if not isinstance(value, Mapping):
        raise PluginLoadError(f"{source} must be a mapping that begins with `plugin:`; see the SDK's README")
    try:
        checked = msgspec.convert(value, PluginFile)
        _ = checked.identity
    except (msgspec.ValidationError, ValueError) as error:
        raise PluginLoadError(f"{source}: {error}") from error
    names = [runner.name for runner in checked.runners]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise PluginLoadError(f"{source}: two runners are named {doubled[0]!r}; give each its own `name`")
    return checked


def load_folder(folder: Path, environment: Mapping[str, str] = os.environ) -> Plugin:
    """Load the runners and tools listed in `hostler.yaml` of a plugin folder. Raises PluginLoadError.

    The host passes the parsed file as JSON in HOSTLER_PLUGIN_MANIFEST; without it, PyYAML reads the file.
    """
    if not folder.is_dir():
        raise PluginLoadError(f"there is no plugin folder {folder}")
    plugin_file = _find_plugin_file(folder, environment)
    sys.path.insert(0, str(folder))
    if not plugin_file.runners and not plugin_file.tools and not plugin_file.channels:
        raise PluginLoadError(
            f'{MANIFEST_NAME} offers nothing: add runners: [{{name: default, entry: "module:Class"}}]'
        )
    runners = {}
    for stated in plugin_file.runners:
        if stated.entry is None:
            raise PluginLoadError(
                f'{MANIFEST_NAME}: runner {stated.name!r} needs an entry, like entry: "module:Class"'
            )
        module, attribute = _split_entry(stated.entry)
        kind = _runner_class(_import(module, folder), attribute, stated.entry)
        runners[stated.name] = _offer(kind, plugin_file.identity, stated)
    return Plugin(plugin_file.identity, runners, _tools(plugin_file, folder), _channels(plugin_file, folder))


def _channels(plugin_file: PluginFile, folder: Path) -> dict[str, OfferedChannel]:
    channels: dict[str, OfferedChannel] = {}
    for stated in plugin_file.channels:
        if not CHANNEL_NAME.fullmatch(stated.name):
            raise PluginLoadError(
                f"channels: {stated.name!r} is not a channel's name: a letter, then letters, digits, '-', '_'"
            )
        if stated.name in channels:
            raise PluginLoadError(f"channels: two are named {stated.name}; give each its own name")
        module, attribute = _split_entry(stated.entry)
        channels[stated.name] = _channel(_import(module, folder), attribute, stated)
    return channels


def _channel(module: ModuleType, attribute: str, stated: ChannelStatement) -> OfferedChannel:
    from hostler_sdk.channels.channel import Channel, channel_manifest  # noqa: PLC0415 - few plugins use it

    found = getattr(module, attribute, None)
    if not (isinstance(found, type) and issubclass(found, Channel) and found is not Channel):
        raise PluginLoadError(
            f"channels: {stated.entry} is not a class derived from hostler_sdk.channels.Channel"
        )
    try:
        return OfferedChannel(channel_manifest(found, stated.name), found)
    except (ManifestError, TypeError, AttributeError) as error:
        raise PluginLoadError(f"{attribute}: {error}") from error


def _tools(plugin_file: PluginFile, folder: Path) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    for entry in plugin_file.tools:
        module, attribute = _split_entry(entry, "module:function")
        found = getattr(_import(module, folder), attribute, None)
        if not isinstance(found, Tool):
            raise PluginLoadError(f"tools: {entry} is not a function decorated with @tool")
        if found.effect == "reconcilable" and not found.client and not found.has_lookup:
            raise PluginLoadError(
                f"tools: {entry} is reconcilable, and nothing tells its outcomes: add @{found.name}.lookup"
            )
        name = f"{plugin_file.identity.name}.{found.name}"
        if name in tools:
            raise PluginLoadError(f"tools: two are named {name}; give each function its own name")
        tools[name] = found
    return tools


def load_file(target: str, environment: Mapping[str, str] = os.environ) -> Plugin:
    """Load one runner from `path/to/file.py:Class`, named after its class.

    Identity: HOSTLER_PLUGIN_AUTHOR, _NAME and _VERSION, else `local/<stem>-<digest of the real path>`.
    """
    name, colon, attribute = target.rpartition(":")
    if not colon or not name or not attribute.isidentifier():
        raise PluginLoadError(f"{target!r} is not a runner: write it as file.py:Class")
    path = Path(name)
    if not path.is_file():
        raise PluginLoadError(f"there is no file {name}; write the runner as path/to/file.py:Class")
    sys.path.insert(0, str(path.resolve().parent))
    kind = _runner_class(_import_file(path), attribute, target)
    own = local_identity(path)
    try:
        identity = PluginIdentity(
            author=environment.get("HOSTLER_PLUGIN_AUTHOR", own.author),
            name=environment.get("HOSTLER_PLUGIN_NAME", own.name),
            version=environment.get("HOSTLER_PLUGIN_VERSION", own.version),
        )
    except ValueError as error:
        raise PluginLoadError(f"HOSTLER_PLUGIN_AUTHOR, HOSTLER_PLUGIN_NAME: {error}") from error
    return Plugin(identity, {attribute: _offer(kind, identity, Statements(name=attribute))})


def load_distribution(name: str, environment: Mapping[str, str] = os.environ) -> Plugin:
    """Load what an installed package offers by the entry point group `hostler.runners`."""
    from importlib import metadata  # noqa: PLC0415  a fifth of the start of plugins, which few of them need

    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise PluginLoadError(f"no package {name!r} is installed in this environment") from error
    points = [point for point in distribution.entry_points if point.group == ENTRY_POINT_GROUP]
    if not points:
        raise PluginLoadError(f"package {name!r} has no entry points in the group {ENTRY_POINT_GROUP}")
    identity = PluginIdentity(
        author=environment.get("HOSTLER_PLUGIN_AUTHOR", "local"),
        name=environment.get("HOSTLER_PLUGIN_NAME", distribution.name),
        version=environment.get("HOSTLER_PLUGIN_VERSION", distribution.version),
    )
    runners = {}
    for point in points:
        kind = _runner_class(_import(point.module, None), point.attr, point.value)
        runners[point.name] = _offer(kind, identity, Statements(name=point.name))
    return Plugin(identity, runners)


def local_identity(path: Path) -> PluginIdentity:
    """Who a single file is: `local/<stem>-<first 12 digits of the SHA-256 of its real path>`."""
    real = path.resolve()
    stem = re.sub(r"[^a-zA-Z0-9_.-]", "-", real.stem).lstrip("_.-")[:80] or "runner"
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    return PluginIdentity(author="local", name=f"{stem}-{digest}")


def _find_plugin_file(folder: Path, environment: Mapping[str, str]) -> PluginFile:
    if given := environment.get(MANIFEST_VARIABLE):
        try:
            return read_plugin_file(json.loads(given), MANIFEST_VARIABLE)
        except json.JSONDecodeError as error:
            raise PluginLoadError(f"{MANIFEST_VARIABLE} is not JSON: {error}") from error
    path = folder / MANIFEST_NAME
    if not path.is_file():
        raise PluginLoadError(f"there is no {MANIFEST_NAME} in {folder}: a plugin folder needs one")
    try:
        # used where it is there, never needed: a host gives the file already parsed
        yaml: Any = importlib.import_module("yaml")
    except ImportError as error:
        raise PluginLoadError(
            f"reading {MANIFEST_NAME} needs PyYAML, which is not installed here: "
            f"install pyyaml, or start the plugin through hostler"
        ) from error
    try:
        return read_plugin_file(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PluginLoadError(f"{MANIFEST_NAME} is not YAML: {error}") from error


def _split_entry(entry: str, form: str = "module:Class") -> tuple[str, str]:
    module, colon, attribute = entry.partition(":")
    names = (*module.split("."), attribute)
    if not colon or not all(name.isidentifier() for name in names):
        raise PluginLoadError(f"entry {entry!r} is not of the form {form}")
    return module, attribute


def _import(module: str, folder: Path | None) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if missing != module:
            raise _missing_package(module, missing) from error
        looked = "" if folder is None else f" in {folder}"
        raise PluginLoadError(f"there is no module {module!r}{looked}: is the entry right?") from error
    except (Exception, SystemExit) as error:
        raise _broken_module(module, error) from error


def _import_file(path: Path) -> ModuleType:
    name = path.stem if path.stem not in sys.modules else f"runner_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginLoadError(f"{path} is not a Python file: its name must end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise _missing_package(str(path), error.name or "") from error
    except (Exception, SystemExit) as error:
        raise _broken_module(str(path), error) from error
    return module


def _missing_package(module: str, missing: str) -> PluginLoadError:
    return PluginLoadError(
        f"{module} imports {missing!r}, which is not installed: "
        f"name the package in `requires:` of {MANIFEST_NAME}, or install it"
    )


def _broken_module(module: str, error: BaseException) -> PluginLoadError:
    if isinstance(error, SyntaxError):
        place = f"{error.filename or module}, line {error.lineno}"
        return PluginLoadError(f"{place}: {type(error).__name__}: {error.msg}")
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return PluginLoadError(f"{module} fails while it is imported: {type(error).__name__}: {error}{place}")


def _runner_class(module: ModuleType, attribute: str, entry: str) -> type[Runner]:
    found = getattr(module, attribute, None)
    if isinstance(found, type) and issubclass(found, Runner) and found is not Runner:
        return found
    offered = _names(
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Runner) and value.__module__ == module.__name__
    )
    hint = f"its runners are {offered}" if offered else "it defines no class derived from hostler_sdk.Runner"
    what = "has no such class" if found is None else "is not a class derived from hostler_sdk.Runner"
    subject = Path(module.__file__).name if module.__file__ else module.__name__
    raise PluginLoadError(f"{entry}: {subject} {what if found is None else f'{attribute} {what}'}; {hint}")


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _offer(kind: type[Runner], identity: PluginIdentity, stated: Statements) -> OfferedRunner:
    try:
        manifest = manifest_of(kind, identity, stated)
    except (ManifestError, TypeError, AttributeError) as error:
        raise PluginLoadError(f"{kind.__name__}: {error}") from error
    try:
        runner = kind()
    except Exception as error:
        raise PluginLoadError(
            f"{kind.__name__}() fails: {type(error).__name__}: {error}; a runner is built without arguments"
        ) from error
    return OfferedRunner(manifest, runner)
