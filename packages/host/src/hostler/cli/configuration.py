"""`hostler apply` and `hostler export`: the whole configuration as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption
from hostler.cli.output import USAGE, fail, fail_with, note, report_errors, show_problem, write_json
from hostler.cli.server import Server, server_command
from hostler.cli.terminal import out
from hostler_protocol.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hostler.cli.client import Api
    from hostler.domain.config_changes import Change, ConfigDiff
    from hostler.domain.config_mistakes import Mistake
    from hostler.host.config import ConfigFile
    from hostler.host.config_file import ConfigSource
    from hostler_protocol.errors import HostlerError

APPLY_SECONDS = 300.0
"""The server starts plugins before it answers, and may have to build their environments first."""
MARKS = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


@server_command
def apply(
    server: Server,
    file: Annotated[Path, typer.Argument(help="A configuration file, YAML or TOML.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove entries that the file does not name.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Apply a configuration file. Entries that it does not name stay, unless --prune."""
    from hostler.domain.config_mistakes import ConfigurationError
    from hostler.host.config_file import read_config_file

    with report_errors():
        config, source = read_config_file(file)

    async def ask(api: Api) -> ConfigDiff:
        return await send_config(api, config, source, dry_run=dry_run, prune=prune)

    try:
        diff = server.ask(ask, unhandled=ConfigurationError)
    except ConfigurationError as error:
        if as_json:
            write_json({"applied": False, **error.details})
        fail_with(error, USAGE)
    if as_json:
        write_json(diff)
        return
    show_diff(diff)
    for problem in diff.problems:
        show_problem(problem)


async def send_config(
    api: Api, config: ConfigFile, source: ConfigSource, *, dry_run: bool = False, prune: bool = False
) -> ConfigDiff:
    """Apply a configuration file on a server. ConfigurationError with all its mistakes.

    Mistakes found while reading the file are reported together with those that the server finds.
    """
    import msgspec

    from hostler.domain.config_changes import ConfigDiff

    check_only = dry_run or bool(source.mistakes)
    try:
        found = await api.post("/v1/config", config, seconds=APPLY_SECONDS, dry_run=check_only, prune=prune)
    except InvalidArgumentError as error:
        if not isinstance(error.details.get("errors"), list):
            raise
        found_there = [one for one in _mistakes(error, source) if one not in source.mistakes]
        raise source.error(found_there) from None
    if source.mistakes:
        raise source.error()
    return msgspec.convert(found, ConfigDiff)


def _mistakes(error: HostlerError, source: ConfigSource) -> list[Mistake]:
    """Return the mistakes in a server's answer, with their places in the file."""
    from hostler.domain.config_mistakes import Mistake

    errors, warnings = error.details["errors"], error.details.get("warnings") or []
    return [
        *(Mistake(source.outer(one["field"]), one["expected"], "error") for one in errors),
        *(Mistake(source.outer(one["field"]), one["expected"], "warning") for one in warnings),
    ]


def show_diff(diff: ConfigDiff) -> None:
    """Print the changes of a configuration, and how many entries stay unchanged."""
    show_changes(diff)
    rest = len(diff.changes) - len(diff.effective)
    if diff.effective and diff.applied:
        note(f"applied; {rest} unchanged")
    elif diff.effective:
        note(f"nothing was changed (--dry-run); {rest} would stay unchanged")


def show_changes(diff: ConfigDiff) -> None:
    """Print each changed entry with its changed fields; a note if there are none."""
    from rich.text import Text

    for change in diff.effective:
        mark, style = MARKS[change.change]
        out().print(Text.assemble((f"{mark} {change.kind} ", style), (change.name, "bold")), soft_wrap=True)
        for line in changed_fields(change):
            out().print(Text(f"    {line}", style="dim"), soft_wrap=True)
    if not diff.effective:
        note("nothing to change: the configuration is already like this")


def changed_fields(change: Change) -> list[str]:
    """Return a line for each field of an entry that was added, changed or removed."""
    before, after = _flat(change.before or {}), _flat(change.after or {})
    if change.change == "added":
        return [f"{name}: {after[name]}" for name in after if name not in _KEYS]
    if change.change == "removed":
        return []
    lines = []
    for name in sorted({*before, *after}):
        old, new = before.get(name, "(default)"), after.get(name, "(default)")
        if old != new:
            lines.append(f"{name}: {old} → {new}")
    return lines


_KEYS = {"name", "id", "path"}
"""The fields that identify an entry; its headline shows them."""


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, str]:
    import msgspec

    flat: dict[str, str] = {}
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            flat |= _flat(inner, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = msgspec.json.encode(inner).decode()
    return flat


@server_command
def export(
    server: Server,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the configuration as one file for `hostler apply`.

    References stay; a secret that is written out is `***`, which stands for
    the stored one where the file came from.
    """
    import msgspec
    import yaml

    from hostler.domain.config_changes import sparse
    from hostler.host.config import ConfigFile

    async def ask(api: Api) -> ConfigFile:
        return msgspec.convert(await api.get("/v1/config"), ConfigFile)

    found = sparse(server.ask(ask))
    if as_json and output is None:
        write_json(found)
        return
    text = yaml.safe_dump(found, sort_keys=False, allow_unicode=True) if found else "# nothing yet\n"
    if as_json:
        text = msgspec.json.encode(found).decode() + "\n"
    if output is None:
        out().print(text.rstrip(), markup=False, soft_wrap=True)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")
    note(f"written to {output}")
