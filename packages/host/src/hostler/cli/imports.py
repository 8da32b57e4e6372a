"""`hostler import`: make a configuration file of another program's configuration."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hostler.cli.options import JsonOption
from hostler.cli.output import FAILED, USAGE, fail, report_errors, write_json
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command

if TYPE_CHECKING:
    from hostler.cli.client import Api
    from hostler.host.config import ConfigFile
    from hostler.host.langbot.plan import Plan
    from hostler.host.langbot.secrets import WantedSecret

app = typer.Typer(help="Import the configuration of another program: langbot.", no_args_is_help=True)
NEW_FILE_MODE = 0o644
"""Of a configuration file that is written for the first time: it holds no secrets."""


@app.callback()
def _group() -> None:
    """Import the configuration of another program: langbot."""


@app.command("langbot")
@server_command
def langbot(
    server: Server,
    path: Annotated[
        Path,
        typer.Argument(
            help="LangBot's folder `data`, its database `langbot.db`, or a pipeline as a JSON or YAML file."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The configuration file; entries that it has stay."
        ),
    ] = Path("hostler.yaml"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would become of each item.")
    ] = False,
    secrets: Annotated[
        Literal["env", "store"],
        typer.Option(
            "--secrets",
            help="env: refer to environment variables. store: put them into the host's store of secrets.",
        ),
    ] = "env",
    env_file: Annotated[
        Path | None,
        typer.Option(
            "--env-file", metavar="FILE", help="Write the variables with their values to this file."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make agents, models and MCP servers of a LangBot configuration.

    LangBot's files are only read, also while it runs. Every item is listed
    with what became of it; the status is 1 if one was not imported or cannot
    run yet.
    """
    from hostler.cli.import_report import report_of, show_report
    from hostler.host.langbot.plan import plan_import
    from hostler.host.langbot.secrets import Secrets
    from hostler.host.langbot.source import read_source

    if secrets == "store" and env_file is not None:
        fail("--env-file goes with --secrets env: the store keeps the values itself", USAGE)
    with report_errors():
        source = read_source(path)
        target = output.expanduser().resolve()
        text, existing = _existing(target, output)
        plan = plan_import(source, existing, Secrets(secrets))
        new_text = _extended(text, plan, output, source.path)
    states = {one.reference: _state(one, secrets) for one in plan.secrets}
    if not dry_run:
        if secrets == "store" and plan.secrets:
            states = _store(server, plan.secrets)
        with report_errors():
            if env_file is not None and plan.secrets:
                _write_variables(env_file, plan.secrets)
                states = dict.fromkeys(states, "written")
            if plan.entries:
                _replace(target, new_text, text)
    report = report_of(source.path, str(output), plan, states, written=bool(plan.entries) and not dry_run)
    if as_json:
        write_json(report)
    else:
        show_report(report, dry_run=dry_run, env_file=None if env_file is None or dry_run else str(env_file))
    if not plan.is_whole:
        raise typer.Exit(FAILED)


def _existing(target: Path, shown: Path) -> tuple[str | None, ConfigFile]:
    """Return the text of the configuration file and its entries; None: there is no file yet."""
    from hostler.host.config import ConfigFile
    from hostler.host.config_file import MAX_CONFIG_BYTES, read_config
    from hostler.plugins.plain_files import read_plain_file
    from hostler_protocol.errors import InvalidArgumentError

    try:
        text = read_plain_file(target, MAX_CONFIG_BYTES).decode("utf-8")
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise InvalidArgumentError(
                f"{shown} cannot be written: there is no folder {target.parent}"
            ) from None
        return None, ConfigFile()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"{shown} is not a text in UTF-8: name another file with --output"
        ) from error
    except ValueError as error:
        raise InvalidArgumentError(f"{shown} {error}: name another file with --output") from error
    except OSError as error:
        raise InvalidArgumentError(f"{shown} cannot be read: {error.strerror}") from error
    config, source = read_config(text, name=str(shown))
    if source.mistakes:
        raise source.error()
    return text, config


def _extended(text: str | None, plan: Plan, shown: Path, source: str) -> str:
    """Return the text with the new entries. It is read again before anything is written."""
    from hostler.cli.terminal_text import visible
    from hostler.host.config_file import read_config
    from hostler.host.config_merge import with_entries

    if not plan.entries:
        return text or ""
    begin = f"# Imported from LangBot: {visible(source)}\n" if text is None else text
    found = with_entries(begin, plan.added(), name=str(shown))
    _, read = read_config(found, name=str(shown))
    if read.mistakes:
        raise read.error()
    return found


def _replace(target: Path, text: str, before: str | None) -> None:
    """Replace the configuration file atomically. ConflictError if it was changed since it was read."""
    from hostler.host.data_directory import replace_file
    from hostler_protocol.errors import ConflictError

    mode = NEW_FILE_MODE
    try:
        now: str | None = target.read_bytes().decode("utf-8", "replace")
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        now = None
    if now != before:
        raise ConflictError(f"{target} was changed meanwhile, and was left as it is: import again")
    replace_file(target, text.encode(), mode)


def _state(secret: WantedSecret, keeping: str) -> str:
    import os

    if keeping == "store":
        return "pending"
    return "set" if os.environ.get(secret.name) else "missing"


def _write_variables(path: Path, secrets: Sequence[WantedSecret]) -> None:
    """Write variables with their values, readable by their owner alone.

    A file that has them already stays. ConflictError for one with other content.
    """
    from hostler.host.data_directory import replace_file
    from hostler_protocol.errors import ConflictError

    content = "".join(f"{one.name}={shlex.quote(one.value)}\n" for one in secrets)
    path = path.expanduser().resolve()
    try:
        if content in path.read_bytes().decode("utf-8", "replace"):
            return
    except FileNotFoundError:
        replace_file(path, content.encode())
        return
    except OSError as error:
        raise ConflictError(f"{path} cannot be read: {error.strerror}") from error
    raise ConflictError(
        f"{path} exists, and has other content: name another file with --env-file, or remove it"
    )


def _store(server: Server, secrets: Sequence[WantedSecret]) -> dict[str, str]:
    """Store the secrets that the host does not have yet; return what became of each, by reference."""

    async def work(api: Api) -> dict[str, str]:
        found: dict[str, str] = {}
        known: dict[str, set[str]] = {}
        for one in secrets:
            if one.owner not in known:
                listed = await api.items("/v1/secrets", limit=10_000, owner=one.owner)
                known[one.owner] = {secret["name"] for secret in listed}
            if one.name in known[one.owner]:
                found[one.reference] = "kept"
                continue
            await api.put(route("secrets", one.name), {"value": one.value}, owner=one.owner, existing="false")
            found[one.reference] = "stored"
        return found

    return server.ask(work)
