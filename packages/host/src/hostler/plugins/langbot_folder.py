"""Recognise a plugin folder of LangBot, and read it as what its hostler.yaml would say.

The translation itself is in the package `hostler_langbot`, which is optional.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostler.domain.record import Record
from hostler.domain.untrusted_yaml import read_foreign_yaml
from hostler.plugins.plain_files import MAX_MANIFEST_BYTES, read_plain_file
from hostler_protocol.errors import PluginStartError

if TYPE_CHECKING:
    from hostler_langbot.manifest import Place

LANGBOT_MANIFEST = "manifest.yaml"
REQUIREMENTS = "requirements.txt"
COMPONENT_SUFFIXES = (".yaml", ".yml")
MAX_LISTED = 5000
"""Entries of the folders with components that are looked at."""
MISSING = (
    "is a plugin of LangBot, and the bridge for these is not installed: "
    'install hostler[langbot], as in pip install "hostler[langbot]"'
)


class LangBotFolder(Record):
    """A plugin of LangBot: the value of its hostler.yaml, if it had one, and notes for its operator."""

    plugin_file: dict[str, Any]
    notes: tuple[str, ...]
    name: str = LANGBOT_MANIFEST


def read_langbot_folder(folder: Path) -> LangBotFolder | None:
    """Read a plugin of LangBot. None if the folder is none.

    Blocks. Raises PluginStartError that names file and mistake, or says what to install.
    """
    path = folder / LANGBOT_MANIFEST
    if not os.path.lexists(path):
        return None
    manifest = _yaml(path)
    if not isinstance(manifest, dict) or manifest.get("kind") != "Plugin":
        return None
    try:
        from hostler_langbot import manifest as langbot  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise PluginStartError(f"{folder} {MISSING}") from error
    try:
        components = dict(_components(folder, langbot.component_places(manifest), langbot.MAX_COMPONENTS))
        translated = langbot.translate(manifest, components, _requirements(folder / REQUIREMENTS))
    except langbot.LangBotManifestError as error:
        raise PluginStartError(f"{folder}: {error}") from error
    return LangBotFolder(translated.plugin_file, translated.notes)


def _components(folder: Path, places: list[Place], most: int) -> Iterator[tuple[str, Any]]:
    """Yield the component files by their path in the folder. Raises PluginStartError."""
    found: dict[str, None] = {}
    for place in places:
        if place.depth == 0:
            found[os.path.normpath(place.path)] = None
        else:
            found.update(dict.fromkeys(_files_below(folder, os.path.normpath(place.path), place.depth)))
    if len(found) > most:
        raise PluginStartError(f"{folder} has {len(found)} component files; at most {most} are read")
    top = os.path.realpath(folder)
    for name in found:
        path = folder / name
        if not os.path.realpath(path).startswith(f"{top}{os.sep}"):
            raise PluginStartError(f"{path} is a link that leads out of the plugin's folder")
        yield name, _yaml(path)


def _files_below(folder: Path, place: str, depth: int) -> Iterator[str]:
    pending, looked = [(place, 1)], 0
    while pending:
        here, level = pending.pop(0)
        try:
            names = sorted(os.listdir(folder / here))  # noqa: PTH208
        except OSError as error:
            raise PluginStartError(f"{folder / here} cannot be read: {error.strerror}") from error
        looked += len(names)
        if looked > MAX_LISTED:
            raise PluginStartError(f"{folder / place} has over {MAX_LISTED:,} entries; components need fewer")
        for name in names:
            path = f"{here}/{name}"
            if os.path.isdir(folder / path):  # noqa: PTH112
                if level < depth:
                    pending.append((path, level + 1))
            elif name.endswith(COMPONENT_SUFFIXES):
                yield path


def _yaml(path: Path) -> Any:
    try:
        return read_foreign_yaml(read_plain_file(path, MAX_MANIFEST_BYTES))
    except OSError as error:
        raise PluginStartError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise PluginStartError(f"{path} {_mistake(error)}") from error


def _mistake(error: ValueError) -> str:
    text = str(error)
    return text if text.startswith(("is ", "has ")) else f"is not YAML: {text}"


def _requirements(path: Path) -> str:
    try:
        return read_plain_file(path, MAX_MANIFEST_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise PluginStartError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PluginStartError(f"{path} is no text in UTF-8: {error}") from error
    except ValueError as error:
        raise PluginStartError(f"{path} {error}") from error
