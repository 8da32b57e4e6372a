"""Read a configuration file and report all its mistakes at once.

It is YAML, or TOML with the same keys. Unknown keys are refused with the nearest valid one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from msgspec.structs import replace

from hostler.domain.allowances import workspace_mistakes
from hostler.domain.audit_anchors import anchor_mistakes
from hostler.domain.channels import channel_mistakes
from hostler.domain.config_mistakes import ConfigurationError, Mistake
from hostler.domain.cors import cors_mistakes
from hostler.domain.hooks import hook_mistakes
from hostler.domain.mcp_entry import McpEntry
from hostler.domain.record import Record
from hostler.domain.schedules import schedule_mistakes
from hostler.domain.sign_in import sign_in_mistakes
from hostler.domain.suggestions import did_you_mean
from hostler.domain.tool_entries import ToolEntry, entry_mistake
from hostler.domain.type_fit import fit
from hostler.domain.webhooks import webhook_mistake
from hostler.domain.widgets import widget_mistakes
from hostler.host.bundled import shipped_plugin, shipped_plugins
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.config_text import YamlMarks, load_text, yaml_marks
from hostler_protocol.errors import InvalidArgumentError

MAX_CONFIG_BYTES = 4 * 1024 * 1024
"""One configuration file; thousands of agents fit."""

_SHIPPED = re.compile(r"hostler/[a-z0-9][a-z0-9-]*")
"""How a plugin that comes with the host is named in place of its path."""
_ENTRY = re.compile(r"(\w+)\[(\d+)\]")
_NAMED_BY = {"models": "id", "plugins": "path", "skills": "path"}
"""Section -> the field that names its entries, if it is not `name`."""
_PATHS = {"plugins", "skills"}
"""The sections whose entries may be plain paths."""


class ConfigSource(Record):
    """The source of a configuration, and the mistakes found while reading it."""

    name: str = ""
    """The file; "" if there is none."""
    mistakes: tuple[Mistake, ...] = ()
    names: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Place of an entry, like `agents[2]`, -> its name."""
    numbers: Mapping[str, Sequence[int]] = msgspec.field(default_factory=dict)
    """Section -> the positions in the file of the entries that could be read."""
    lines: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Place -> line in the file, from 1."""
    entry: str = ""
    """The place of the only entry, if places of mistakes are relative to it."""

    def place(self, section: str, number: int) -> str:
        """Return the place in the file of an entry, by its number among those that could be read."""
        known = self.numbers.get(section, ())
        return f"{section}[{known[number] if number < len(known) else number}]"

    def outer(self, place: str) -> str:
        """Return the place in the file of a place among the entries that could be read."""
        match = _ENTRY.match(place)
        if match is None:
            return place
        return self.place(match[1], int(match[2])) + place[match.end() :]

    def error(self, mistakes: Sequence[Mistake] = ()) -> ConfigurationError:
        """Return the error with all mistakes, those of the source first."""
        found = [self._in_entry(mistake) for mistake in (*self.mistakes, *mistakes)]
        return ConfigurationError(found, names=self.names, source=self.name, lines=self.lines)

    def _in_entry(self, mistake: Mistake) -> Mistake:
        if not self.entry or not mistake.place.startswith(self.entry):
            return mistake
        return mistake._replace(place=mistake.place.removeprefix(self.entry).removeprefix("."))


def parse_config(text: str, *, name: str, base: Path | None = None) -> ConfigFile:
    """Read a configuration.

    `name` appears in errors; TOML if it ends in `.toml`, else YAML. Relative paths are resolved from `base`.
    ConfigurationError has all mistakes, each with its place and the nearest valid word.
    """
    config, source = read_config(text, name=name, base=base)
    if source.mistakes:
        raise source.error()
    return config


def read_config(text: str, *, name: str, base: Path | None = None) -> tuple[ConfigFile, ConfigSource]:
    """Read as much of a configuration as possible. See `parse_config`.

    InvalidArgumentError if the text is too large, or neither YAML nor TOML.
    """
    if len(text) > MAX_CONFIG_BYTES:
        raise InvalidArgumentError(f"{name}: larger than {MAX_CONFIG_BYTES:,} bytes")
    data = load_text(text, name)
    fitted, mistakes = fit({} if data is None else data, ConfigFile)
    config = absolute(fitted or ConfigFile(), base)
    marks = YamlMarks({}, ()) if name.endswith(".toml") else yaml_marks(text)
    source = source_of(data, config, [*mistakes, *marks.twice])
    return config, replace(source, name=name, lines=marks.lines)


def source_of(data: Any, config: ConfigFile, mistakes: Sequence[Mistake]) -> ConfigSource:
    """Return the source of `config`, which was read from `data` with these mistakes."""
    source = ConfigSource("", tuple(mistakes), _names(data), _numbers(data, mistakes))
    return replace(source, mistakes=(*mistakes, *entry_mistakes(config, source)))


def absolute(config: ConfigFile, base: Path | None) -> ConfigFile:
    """Return the configuration with relative paths resolved from `base`; None: unchanged."""
    return msgspec.structs.replace(
        config,
        plugins=[_absolute(entry, base) for entry in config.plugins],
        tools=[_tool(entry, base) for entry in config.tools],
        skills=[_real(path, base) for path in config.skills],
    )


def load_config(path: Path) -> ConfigFile:
    """Read the configuration file at `path`. ConfigurationError, InvalidArgumentError."""
    config, source = read_config_file(path)
    if source.mistakes:
        raise source.error()
    return config


def read_config_file(path: Path) -> tuple[ConfigFile, ConfigSource]:
    """Read as much of the file at `path` as possible. InvalidArgumentError if it cannot be read at all."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise InvalidArgumentError(f"{path}: no such file") from None
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path} is not a text in UTF-8: name a YAML or TOML file") from error
    return read_config(text, name=str(path), base=path.resolve().parent)


def _sections(data: Any) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(data, Mapping):
        yield from ((key, value) for key, value in data.items() if isinstance(value, list))


def _names(data: Any) -> dict[str, str]:
    """Return the names of a file's entries by place."""
    names: dict[str, str] = {}
    for section, entries in _sections(data):
        for number, entry in enumerate(entries):
            if (name := entry_name(section, entry)) is not None:
                names[f"{section}[{number}]"] = name
    return names


def entry_name(section: str, entry: Any) -> str | None:
    """Return the name of an entry, or None if it has none."""
    name: Any = None
    if isinstance(entry, Mapping) and section == "tools":
        name = next(
            (
                f"{kind}:{settings['name']}"
                for kind, settings in entry.items()
                if isinstance(settings, Mapping) and "name" in settings
            ),
            None,
        )
    elif isinstance(entry, Mapping):
        name = entry.get(_NAMED_BY.get(section, "name"))
    elif section in _PATHS:  # any other text may be a misplaced secret
        name = entry
    return name if isinstance(name, str) else None


def _numbers(data: Any, mistakes: Sequence[Mistake]) -> dict[str, list[int]]:
    """Return the positions of the entries that could be read, by section."""
    kinds = {
        one.encode_name: get_args(one.type)[0]
        for one in msgspec.structs.fields(ConfigFile)
        if get_origin(one.type) is list
    }
    return {
        section: [
            number
            for number, entry in enumerate(entries)
            if not mistakes or fit(entry, kinds[section])[0] is not None
        ]
        for section, entries in _sections(data)
        if section in kinds
    }


def entry_mistakes(config: ConfigFile, source: ConfigSource) -> Iterator[Mistake]:
    """Yield the mistakes of entries beyond their types, and duplicate names."""
    by_name = {
        "agents": [agent.name for agent in config.agents],
        "models": [model.id for model in config.models],
        "webhooks": [webhook.name for webhook in config.webhooks],
        "hooks": [hook.name for hook in config.hooks],
        "schedules": [schedule.name for schedule in config.schedules],
        "widgets": [widget.name for widget in config.widgets],
        "sign_in": [entry.name for entry in config.sign_in],
        "channels": [entry.name for entry in config.channels],
        "skills": config.skills,
        "workspaces": [entry.name for entry in config.workspaces],
        "tools": [entry.key if entry_mistake(entry) is None else "" for entry in config.tools],
    }
    for section, names in by_name.items():
        first: dict[str, int] = {}
        for number, name in enumerate(names):
            if first.setdefault(name, number) != number and name:
                text = f"{name!r} is used twice: {source.place(section, first[name])} is the first"
                yield Mistake(source.place(section, number), text)
    reported = {mistake.place.partition("]")[0] + "]" for mistake in source.mistakes}
    checked = [
        ("webhooks", number, webhook_mistake(webhook)) for number, webhook in enumerate(config.webhooks)
    ]
    checked += [
        ("schedules", number, mistake)
        for number, schedule in enumerate(config.schedules)
        for mistake in schedule_mistakes(schedule)
    ]
    checked += [
        ("plugins", number, _not_shipped(entry.path))
        for number, entry in enumerate(config.plugins)
        if isinstance(entry, PluginEntry)
    ]
    checked += [("tools", number, entry_mistake(entry)) for number, entry in enumerate(config.tools)]
    checked += [
        ("workspaces", number, mistake)
        for number, entry in enumerate(config.workspaces)
        for mistake in workspace_mistakes(entry)
    ]
    checked += [
        ("hooks", number, mistake)
        for number, hook in enumerate(config.hooks)
        for mistake in hook_mistakes(hook)
    ]
    checked += [
        ("widgets", number, mistake)
        for number, widget in enumerate(config.widgets)
        for mistake in widget_mistakes(widget)
    ]
    checked += [
        ("sign_in", number, mistake)
        for number, entry in enumerate(config.sign_in)
        for mistake in sign_in_mistakes(entry)
    ]
    checked += [
        ("channels", number, mistake)
        for number, entry in enumerate(config.channels)
        for mistake in channel_mistakes(entry)
    ]
    for section, number, mistake in checked:
        place = source.place(section, number)
        if mistake is not None and (mistake.place or place not in reported):
            yield mistake.within(place)
    if config.audit_anchors is not None:
        for mistake in anchor_mistakes(config.audit_anchors):
            yield mistake.within("audit_anchors")
    if config.cors is not None:
        for mistake in cors_mistakes(config.cors):
            yield mistake.within("cors")


def _absolute(entry: str | PluginEntry, base: Path | None) -> PluginEntry:
    plugin = PluginEntry(path=entry) if isinstance(entry, str) else entry
    if (shipped := _shipped(plugin.path, base)) is not None:
        return msgspec.structs.replace(plugin, path=str(shipped))
    if base is None:
        return plugin
    return msgspec.structs.replace(plugin, path=_real(plugin.path, base))


def _shipped(path: str, base: Path | None) -> Path | None:
    """Return the folder of a shipped runner, named like `hostler/dify`; None: it is a path."""
    if not _SHIPPED.fullmatch(path) or (base is not None and (base / path).exists()):
        return None
    return shipped_plugin(path)


def _not_shipped(path: str) -> Mistake | None:
    """Return the mistake in the name of a shipped runner: no folder, and none in a folder `hostler`."""
    folder = Path(path).expanduser()
    key = f"hostler/{folder.name}"
    if folder.parent.name != "hostler" or not _SHIPPED.fullmatch(key):
        return None
    if folder.parent.exists() or shipped_plugin(key) is not None:
        return None
    # names alone: whole keys share so much that any would seem similar
    hint = did_you_mean(folder.name, [one.partition("/")[2] for one in shipped_plugins()])
    return Mistake("", f"no runner {folder.name!r} comes with the host, and {key} is no folder here; {hint}")


def _tool(entry: ToolEntry, base: Path | None) -> ToolEntry:
    if entry.mcp is not None:
        return msgspec.structs.replace(entry, mcp=_server(entry.mcp, base))
    openapi = entry.openapi
    if openapi is None or openapi.is_address:
        return entry
    return msgspec.structs.replace(
        entry, openapi=msgspec.structs.replace(openapi, document=_real(openapi.document, base))
    )


def _server(entry: McpEntry, base: Path | None) -> McpEntry:
    command = entry.command
    if command and base is not None and "/" in command[0]:
        # links are kept: the interpreter of a virtual environment is one, and finds its packages by its path
        command = [os.path.abspath(base / Path(command[0]).expanduser()), *command[1:]]  # noqa: PTH100
    return msgspec.structs.replace(
        entry,
        command=command,
        cwd=None if entry.cwd is None else _real(entry.cwd, base),
        read=[_real(path, base) for path in entry.read],
        write=[_real(path, base) for path in entry.write],
    )


def _real(path: str, base: Path | None) -> str:
    return path if base is None or "\x00" in path else os.path.realpath(base / Path(path).expanduser())
