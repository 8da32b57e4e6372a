"""Read and check hostler.yaml of a plugin folder: one clear line per mistake."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from hostler.domain.endpoints import ANY, parse_host_port
from hostler.domain.record import Record
from hostler.domain.type_fit import convert
from hostler.domain.untrusted_yaml import read_foreign_yaml
from hostler.plugins.langbot_folder import read_langbot_folder
from hostler.plugins.plain_files import MAX_MANIFEST_BYTES, read_plain_file
from hostler_protocol.errors import InvalidArgumentError, PluginStartError
from hostler_protocol.ids import PluginIdentity

if TYPE_CHECKING:
    from hostler_protocol.manifest import AgentRunnerManifest
    from hostler_sdk.loading import PluginFile


MAX_PARSED = 32
"""Manifests that are kept parsed: a host reads those of its plugins at each look at its configuration."""


class PluginManifest(Record):
    """A checked hostler.yaml; `json` is its form for the plugin process."""

    file: PluginFile
    json: str
    notes: tuple[str, ...] = ()
    """What its operator should know about it."""

    @property
    def identity(self) -> PluginIdentity:
        """The plugin's identity."""
        return self.file.identity


def read_manifest(folder: Path) -> PluginManifest:
    """Read and check `hostler.yaml` of a plugin folder. Raises PluginStartError that says what is wrong."""
    from hostler_sdk.loading import MANIFEST_NAME  # noqa: PLC0415  the SDK is for hosts with plugins

    path = folder / MANIFEST_NAME
    try:
        data = read_plain_file(path, MAX_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        if (found := read_langbot_folder(folder)) is not None:
            manifest = check_manifest(found.plugin_file, str(folder / found.name))
            return replace(manifest, notes=found.notes)
        if not os.path.isdir(folder):  # noqa: PTH112 - unlike Path.is_dir it raises nothing
            raise PluginStartError(f"there is no plugin folder {folder}") from None
        raise PluginStartError(f"{folder} is not a plugin folder: it has no {MANIFEST_NAME}") from None
    except OSError as error:
        raise PluginStartError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise PluginStartError(f"{path} {error}") from error
    return parse_manifest(data, str(path))


def stated_runner(manifest: PluginManifest, name: str) -> AgentRunnerManifest | None:
    """Return a runner as hostler.yaml states it, without what its class adds; None: it has none of this name.

    Nothing of the plugin is loaded. Raises PluginStartError that says what is wrong.
    """
    from hostler_sdk.runner import ManifestError, Runner, manifest_of  # noqa: PLC0415  as above

    stated = next((runner for runner in manifest.file.runners if runner.name == name), None)
    try:
        return None if stated is None else manifest_of(Runner, manifest.identity, stated)
    except ManifestError as error:
        raise PluginStartError(f"runner {name!r}: {error}") from error


@lru_cache(MAX_PARSED)
def parse_manifest(data: bytes, source: str) -> PluginManifest:
    """Check the text of a hostler.yaml; `source` appears in errors."""
    try:
        value = read_foreign_yaml(data)
    except ValueError as error:
        raise PluginStartError(f"{source} is not YAML: {error}") from error
    return check_manifest(value, source)


def check_manifest(value: Any, source: str) -> PluginManifest:
    """Check the value of a hostler.yaml; `source` appears in errors. Raises PluginStartError."""
    from hostler_sdk.loading import PluginFile  # noqa: PLC0415  as above

    if not isinstance(value, Mapping) or "plugin" not in value:
        expected = "`plugin: {author: you, name: its-name, version: 1.0.0}`"
        raise PluginStartError(f"{source} does not name its plugin; it begins with {expected}")
    try:
        file = convert(value, PluginFile, source)
        _ = file.identity
        encoded = msgspec.json.encode(value).decode()
    except InvalidArgumentError as error:
        raise PluginStartError(error.message) from error
    except ValueError as error:  # from PluginIdentity
        raise PluginStartError(f"{source}: {error}") from error
    except TypeError as error:
        raise PluginStartError(f"{source}: only JSON values are allowed: {error}") from error
    try:
        for text in file.network:
            if text != ANY:
                parse_host_port(text)
    except ValueError as error:
        raise PluginStartError(f"{source}: network: {error}") from error
    names = [runner.name for runner in file.runners]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise PluginStartError(f"{source}: two runners are named {doubled[0]!r}; give each its own name")
    return PluginManifest(file, encoded)
