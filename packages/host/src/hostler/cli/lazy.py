"""The tree of commands. Only the module of the command that runs is imported.

Typer converts every value with pydantic, which takes longer to import than most commands take. Plain values
are converted here instead; Typer converts all other values, and rejects wrong ones. This uses names that
Typer does not document, so it is limited to the releases of Typer with which it was tested.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from hostler.domain.record import Record

TESTED_TYPER = "0.29."
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")


class CliCommand(Record):
    """A command or group: the name `target` in a module of this package, and the first line of its help."""

    module: str
    target: str
    panel: str
    summary: str

    def load(self, name: str) -> Any:
        """Import the command and return it, ready to run."""
        found = getattr(import_module(f"hostler.cli.{self.module}"), self.target)
        if isinstance(found, typer.Typer):
            command: Any = get_group(found)
            parts = [command, *command.commands.values()]
        else:
            alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
            alone.command(name)(found)
            command = get_command(alone)
            parts = [command]
        for part in parts:
            convert_plainly(part)
        command.name, command.rich_help_panel = name, self.panel
        return command


class LazyGroup(TyperGroup):
    """A group that lists its commands from a table, and imports only the one that runs."""

    entries: Mapping[str, CliCommand] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, entry in self.entries.items():
            self.commands[name] = TyperCommand(
                name, help=entry.summary, rich_help_panel=entry.panel, rich_markup_mode=self.rich_markup_mode
            )
        convert_plainly(self)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the arguments name, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in self.entries:
            command = self.entries[name].load(name)
        return name, command, rest


def convert_plainly(command: Any) -> None:
    """Convert the plain values of a command's parameters without pydantic."""
    if not typer.__version__.startswith(TESTED_TYPER):
        return
    get_params = command.get_params

    def quick_params(ctx: Any) -> list[Any]:
        parameters: list[Any] = get_params(ctx)  # with those that Typer adds, like --help
        for parameter in parameters:
            if parameter._runtime_param is None:
                parameter._runtime_param = _Plain()
        return parameters

    command.get_params = quick_params


class _Plain:
    """Converts the value of one parameter, in place of Typer."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value for the command. Typer rejects a wrong value."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        found = _several(value, param.type_descriptor) if several else _one(value, param.type_descriptor)
        if found is not None:
            return found
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _several(value: Any, parameter: Any) -> list[Any] | None:
    if get_origin(parameter.annotation) is not list or not isinstance(value, list | tuple):
        return None
    (inner,) = get_args(parameter.annotation)
    return (
        [*value] if inner is str and _has_no_rules(parameter) and all(type(v) is str for v in value) else None
    )


def _one(value: Any, parameter: Any) -> Any:
    """Return the converted value, or None if the value or its type is not plain."""
    kind, rules = parameter.annotation, parameter.parameter_info
    if not _has_no_rules(parameter):
        return None
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else None
    if kind in {int, float}:
        pattern = _INTEGER if kind is int else _NUMBER
        number = kind(value) if isinstance(value, str) and pattern.fullmatch(value) else value
        is_right = type(number) in {int, kind} and not isinstance(number, bool)
        low, high = rules.min, rules.max
        if is_right and (low is None or number >= low) and (high is None or number <= high):
            return kind(number)
        return None
    if kind is Path:
        is_plain = type(value) is str and (os.access(value, os.R_OK) or not os.path.lexists(value))
        return Path(value) if is_plain else None
    return value if kind is str and type(value) is str else None


def _has_no_rules(parameter: Any) -> bool:
    """Return whether the type and, for a number, its bounds are the only rules for a value."""
    rules = parameter.parameter_info
    extra = ("parser", "exists", "writable", "resolve_path", "allow_dash", "path_type", "clamp", "count")
    return rules.file_okay and rules.dir_okay and not any(getattr(rules, name, None) for name in extra)
