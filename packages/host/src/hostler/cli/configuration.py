"""`hostler apply` and `hostler export`: the whole configuration as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption
from hostler.cli.output import USAGE, errors_told, fail, fail_with, note, out, show_problem, write_json
from hostler.cli.server import Server, server_command
from hostler_protocol.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hostler.cli.client import Api
    from hostler.domain.config_changes import Change, ConfigDiff
    from hostler.domain.config_mistakes import Mistake
    from hostler.host.config import ConfigFile
    from hostler.host.config_file import ConfigSource
    from hostler_protocol.errors import HostlerError

APPLY_SECONDS = 300.0
"""Plugins are started before the answer comes, and their environments may have to be built first."""
MARKS = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


@server_command
def apply(
    server: Server,
    file: Annotated[Path, typer.Argument(help="Configuration, YAML or TOML.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove what the file does not name."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a configuration hold. What it does not name stays as it is, unless --prune."""
    from hostler.domain.config_mistakes import ConfigurationError
    from hostler.host.config_file import read_config_file

    with errors_told():
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
    """Have a server apply what was read of a file. ConfigurationError with everything that is wrong.

    What could not be read is told together with what the server finds in the rest.
    """
    import msgspec

    from hostler.domain.config_changes import ConfigDiff

    only_look = dry_run or bool(source.mistakes)
    try:
        found = await api.post("/v1/config", config, seconds=APPLY_SECONDS, dry_run=only_look, prune=prune)
    except InvalidArgumentError as error:
        if not isinstance(error.details.get("errors"), list):
            raise
        raise source.error(_told(error, source)) from None
    if source.mistakes:
        raise source.error()
    return msgspec.convert(found, ConfigDiff)


def _told(error: HostlerError, source: ConfigSource) -> list[Mistake]:
    """What a server found wrong with what was read of a file, at its places in the file."""
    from hostler.domain.config_mistakes import Mistake

    errors, warnings = error.details["errors"], error.details.get("warnings") or []
    return [
        *(Mistake(source.outer(one["field"]), one["expected"], "error") for one in errors),
        *(Mistake(source.outer(one["field"]), one["expected"], "warning") for one in warnings),
    ]


def show_diff(diff: ConfigDiff) -> None:
    """What differs, a line each; changed fields below; and what that means for the rest."""
    show_changes(diff)
    rest = len(diff.changes) - len(diff.effective)
    if diff.effective and diff.applied:
        note(f"applied; {rest} unchanged")
    elif diff.effective:
        note(f"nothing was changed (--dry-run); {rest} would stay unchanged")


def show_changes(diff: ConfigDiff) -> None:
    """What differs, a line each; changed fields below; a note where nothing does."""
    from rich.text import Text

    for change in diff.effective:
        mark, style = MARKS[change.change]
        out().print(Text.assemble((f"{mark} {change.kind} ", style), (change.name, "bold")), soft_wrap=True)
        for line in changed_fields(change):
            out().print(Text(f"    {line}", style="dim"), soft_wrap=True)
    if not diff.effective:
        note("nothing to change: it is so already")


def changed_fields(change: Change) -> list[str]:
    """The fields of an entry that were added, changed or removed, as lines."""
    before, after = _flat(change.before or {}), _flat(change.after or {})
    if change.change == "added":
        return [f"{name}: {_shown(name, after[name])}" for name in after if name not in _KEYS]
    if change.change == "removed":
        return []
    lines = []
    for name in sorted({*before, *after}):
        old, new = before.get(name, "(default)"), after.get(name, "(default)")
        if old != new:
            lines.append(f"{name}: {_shown(name, old)} → {_shown(name, new)}")
    return lines


_KEYS = {"name", "id", "path"}
"""What an entry is known by: its headline says it already."""


def _shown(name: str, value: str) -> str:
    """A value as it may stand on a terminal: a secret that is written out does not."""
    from hostler.domain.config_form import HIDDEN
    from hostler.domain.secret_refs import SECRET_PREFIXES

    if name == "api_key" and not value.strip('"').startswith((*SECRET_PREFIXES, "(default)")):
        return HIDDEN
    return value


def without_secrets(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry as it may stand on a terminal: a key that is written out does not."""
    from hostler.domain.config_form import HIDDEN
    from hostler.domain.secret_refs import SECRET_PREFIXES

    key = entry.get("api_key")
    if isinstance(key, str) and not key.startswith(SECRET_PREFIXES):
        return {**entry, "api_key": HIDDEN}
    return entry


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
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the configuration as one file that `hostler apply` takes. Secrets stay references."""
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
