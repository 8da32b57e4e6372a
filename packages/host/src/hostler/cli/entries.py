"""Configuration entries from the shell: add, change, show and remove one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.output import USAGE, fail, show_problem, write_json
from hostler.cli.routes import route
from hostler.cli.server import Server
from hostler.cli.tables import write_fields, write_record
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api

FieldsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FIELD=VALUE]...",
        help="Fields as in a configuration file, like level=trusted or price.input=0.15. Values are parsed "
        "as JSON if possible. FIELD= resets a field to its default.",
    ),
]
EXAMPLE = "like level=trusted"


def parse_fields(pairs: Sequence[str] | None, example: str = EXAMPLE) -> dict[str, Any]:
    """Return FIELD=VALUE pairs as nested data; None marks a field to remove."""
    import msgspec

    fields: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals or not all(name.split(".")):
            fail(f"{pair!r} is not FIELD=VALUE, {example}", USAGE)
        value: Any = None
        if text:
            try:
                value = msgspec.json.decode(text)
            except msgspec.DecodeError:
                value = text
        *outer, last = name.split(".")
        place = fields
        for step in outer:
            inner = place.setdefault(step, {})
            if not isinstance(inner, dict):
                fail(f"{pair!r}: {step} has a plain value already, so it cannot have fields", USAGE)
            place = inner
        place[last] = value
    return fields


def merged(entry: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with some of its fields replaced, recursively; None removes a field."""
    found = dict(entry)
    for name, value in fields.items():
        before = found.get(name)
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict) and isinstance(before, dict):
            found[name] = merged(before, value)
        elif isinstance(value, dict):
            found[name] = merged({}, value)
        else:
            found[name] = value
    return found


def add_entry(server: Server, field: str, fields: Mapping[str, Any], *, as_json: bool) -> None:
    """Add an entry under the key `field` of a configuration file, and show the changes."""

    async def add(api: Api) -> Any:
        body = await _complete(api, field, merged({}, fields))
        return await api.post(route("config", field), body, seconds=_apply_seconds())

    _show(server, add, as_json=as_json)


def change_entry(server: Server, field: str, name: str, fields: Mapping[str, Any], *, as_json: bool) -> None:
    """Change some fields of an entry, and show the changes."""
    if not fields:
        fail(f"name the fields to change as FIELD=VALUE, {EXAMPLE}", USAGE)

    async def change(api: Api) -> Any:
        known = (await api.get(route("config", field, name)))["entry"]
        body = await _complete(api, field, merged(known or {}, fields))
        return await api.put(route("config", field, name), body, seconds=_apply_seconds())

    _show(server, change, as_json=as_json)


def put_entry(server: Server, field: str, name: str, fields: Mapping[str, Any], *, as_json: bool) -> None:
    """Add an entry or change some of its fields, and show the changes."""
    from hostler_protocol.errors import NotFoundError

    async def put(api: Api) -> Any:
        try:
            known = (await api.get(route("config", field, name)))["entry"] or {}
        except NotFoundError:
            known = _named(field, name)
        body = await _complete(api, field, merged(known, fields))
        return await api.put(route("config", field, name), body, seconds=_apply_seconds())

    _show(server, put, as_json=as_json)


def show_entry(server: Server, field: str, name: str, *, as_json: bool) -> None:
    """Show an entry as in a configuration file."""
    write_record(server.get(route("config", field, name)), _show_record, as_json=as_json)


def _show_record(record: dict[str, Any]) -> None:
    import yaml

    write_fields((("kind", record["kind"]), ("name", record["name"]), ("problem", record["problem"])))
    if record["entry"] is not None:
        out().print()
        text = yaml.safe_dump(record["entry"], sort_keys=False, allow_unicode=True)
        out().print(text.rstrip(), markup=False, soft_wrap=True)


def remove_entry(server: Server, field: str, name: str, *, as_json: bool) -> None:
    """Remove an entry, and show the changes."""
    _show(server, lambda api: api.delete(route("config", field, name)), as_json=as_json)


async def _complete(api: Api, field: str, data: dict[str, Any]) -> Any:
    """Return the entry without defaults and with absolute paths. ConfigurationError with all its mistakes."""
    from hostler.cli.configuration import send_config
    from hostler.domain.config_changes import sparse
    from hostler.host.config_entries import entry_kind, read_entry, with_entry

    kind = entry_kind(field)
    entry, source = read_entry(kind, data, Path.cwd())
    if entry is None:
        raise source.error()
    config = with_entry(kind, entry, Path.cwd())
    if source.mistakes:  # reported together with those that the server finds
        await send_config(api, config, source)
    value = getattr(config, kind.field)
    if field == "skills":
        return {"path": value[0]}
    if field in {"pause_key", "master_key"}:
        return {"keys": value}
    return sparse(value if kind.single else value[0])


def _named(field: str, name: str) -> dict[str, Any]:
    """Return a new entry that has only a name."""
    from hostler.host.config_entries import entry_kind

    kind, colon, own = name.partition(":")
    if field == "tools" and colon:
        return {kind: {"name": own}}
    named_by = entry_kind(field).named_by
    return {} if named_by is None or field == "plugins" else {named_by: name}


def _apply_seconds() -> float:
    from hostler.cli.configuration import APPLY_SECONDS

    return APPLY_SECONDS


def _show(server: Server, work: Callable[[Api], Any], *, as_json: bool) -> None:
    import msgspec

    from hostler.cli.configuration import show_changes
    from hostler.domain.config_changes import ConfigDiff

    diff = msgspec.convert(server.ask(work), ConfigDiff)
    named = [change for change in diff.changes if change.change != "kept"]
    diff = msgspec.structs.replace(diff, changes=named)
    if as_json:
        write_json(diff)
        return
    show_changes(diff)
    for problem in diff.problems:
        show_problem(problem)
