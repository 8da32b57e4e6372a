"""`hostler`: the table of all commands. A command's module is imported when it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import typer

from hostler.cli.lazy import Entry, LazyGroup
from hostler.version import VERSION

START, OPERATE, LOOK = "Start", "Operate", "Inspect and change"
COMMANDS: Mapping[str, Entry] = {
    "demo": Entry(
        "demo",
        "demo",
        START,
        "Start a server with example agents and chat with them; without a terminal, play a short "
        "conversation.",
    ),
    "run": Entry("run", "run", START, "Run an agent once and stream its output."),
    "chat": Entry(
        "chat",
        "chat",
        START,
        "Chat with an agent: answers stream, you can write meanwhile, and you approve or deny its calls.",
    ),
    "dev": Entry(
        "dev", "dev", START, "Serve a plugin to a running host while you work on it; each change restarts it."
    ),
    "test": Entry("conform", "conform", START, "Run the conformance tests of the protocol against a plugin."),
    "replay": Entry(
        "replay",
        "replay",
        START,
        "Repeat recorded runs without models, tools or network, and report where a runner now differs.",
    ),
    "new": Entry("scaffold", "app", START, "Create a plugin of your own: `hostler new runner NAME`."),
    "serve": Entry(
        "serve",
        "serve",
        OPERATE,
        "Start the host: it takes events over HTTP, runs agents and streams results.",
    ),
    "apply": Entry(
        "configuration",
        "apply",
        OPERATE,
        "Apply a configuration file. Entries that it does not name stay, unless --prune.",
    ),
    "export": Entry(
        "configuration",
        "export",
        OPERATE,
        "Write the configuration as one file for `hostler apply`. Secrets stay references.",
    ),
    "doctor": Entry(
        "doctor",
        "doctor",
        OPERATE,
        "Check Python, SQLite, the sandbox, the data directory, the server and its plugins.",
    ),
    "backup": Entry(
        "backup",
        "backup",
        OPERATE,
        "Copy the database and files into a new folder as one consistent state, also while a server runs.",
    ),
    "restore": Entry(
        "backup",
        "restore",
        OPERATE,
        "Restore a backup into a data directory without a database. Every file is verified.",
    ),
    "gc": Entry(
        "gc",
        "gc",
        OPERATE,
        "Delete expired artifacts, unfinished uploads, unused files and working folders, and old data by "
        "age.",
    ),
    "audit": Entry("audit", "app", OPERATE, "Verify the hash chains of the event log and the audit log."),
    "runs": Entry("runs", "app", LOOK, "Runs: list, show, follow, cancel, export, retry, fork."),
    "pauses": Entry("pauses", "app", LOOK, "Calls and questions that wait for people: list, show, decide."),
    "agents": Entry(
        "agents",
        "app",
        LOOK,
        "Agents: add, list, show, versions, change, remove. `hostler apply` adds many at once.",
    ),
    "plugins": Entry("plugins", "app", LOOK, "Plugins: add, list, show, change, remove, logs, restart."),
    "tools": Entry(
        "tools",
        "app",
        LOOK,
        "Tools: list, show, approve; the entries that provide them: entries, add, change, remove, servers.",
    ),
    "skills": Entry("skills", "app", LOOK, "Skills: add, list, show, confirm, remove."),
    "models": Entry("models", "app", LOOK, "Models: add, list, show, change, remove."),
    "config": Entry("config", "app", LOOK, "Configuration entries: list, show, set, remove."),
    "keys": Entry("keys", "app", LOOK, "API keys: create, list, revoke."),
}


class Hostler(LazyGroup):
    """The root of the commands."""

    entries = COMMANDS


app = typer.Typer(
    name="hostler",
    cls=Hostler,
    help="A durable host for AI agents of any framework and language.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"hostler {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    del version
    logging.getLogger().addHandler(logging.NullHandler())  # only `serve` writes a log
