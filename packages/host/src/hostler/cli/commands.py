"""`hostler`: the table of all commands. A command is imported when it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import typer

from hostler.cli.lazy import Entry, LazyGroup
from hostler.version import VERSION

START, OPERATE, LOOK = "Start", "Operate", "Look and change"
COMMANDS: Mapping[str, Entry] = {
    "demo": Entry(
        "demo",
        "demo",
        START,
        "Start a server with example agents and talk with them; without a terminal, watch a short "
        "conversation.",
    ),
    "run": Entry("run", "run", START, "Run an agent once and stream what it says."),
    "chat": Entry(
        "chat",
        "chat",
        START,
        "Talk with an agent: it streams, takes what you say meanwhile, and asks before what needs a yes.",
    ),
    "dev": Entry(
        "dev",
        "dev",
        START,
        "Serve a plugin to a running host while you work on it: at each change it is started anew.",
    ),
    "test": Entry(
        "conform",
        "conform",
        START,
        "Start a plugin as a host does, and see whether it keeps the rules of the protocol.",
    ),
    "replay": Entry(
        "replay",
        "replay",
        START,
        "Run a runner again against what a run recorded, without models, tools or network.",
    ),
    "new": Entry("scaffold", "app", START, "Start something of your own."),
    "serve": Entry(
        "serve",
        "serve",
        OPERATE,
        "Start the host: events in over HTTP, runs, results out. Ctrl-C or SIGTERM stops it in order.",
    ),
    "apply": Entry(
        "configuration",
        "apply",
        OPERATE,
        "Make a configuration hold. What it does not name stays as it is, unless --prune.",
    ),
    "export": Entry(
        "configuration",
        "export",
        OPERATE,
        "Write the configuration as one file that `hostler apply` takes. Secrets stay references.",
    ),
    "doctor": Entry(
        "doctor",
        "doctor",
        OPERATE,
        "Look at Python, SQLite, the sandbox, the data directory, the server and its plugins.",
    ),
    "backup": Entry(
        "backup",
        "backup",
        OPERATE,
        "Copy everything into a new folder, also while a server is at work: one consistent state.",
    ),
    "restore": Entry(
        "backup",
        "restore",
        OPERATE,
        "Put a backup into a data directory that holds no facts yet. Everything is checked on the way.",
    ),
    "gc": Entry(
        "gc",
        "gc",
        OPERATE,
        "Remove expired artifacts, unfinished uploads, unused files and working folders; by age what you "
        "say.",
    ),
    "audit": Entry("audit", "app", OPERATE, "The audit log and the hash chains."),
    "runs": Entry("runs", "app", LOOK, "Runs: list, show, follow, cancel, export, retry, fork."),
    "pauses": Entry("pauses", "app", LOOK, "What waits for people: list, show, decide."),
    "agents": Entry(
        "agents",
        "app",
        LOOK,
        "Agents: add, list, show, versions, change, remove. `hostler apply` makes many at once.",
    ),
    "plugins": Entry("plugins", "app", LOOK, "Plugins: add, list, show, change, remove; logs, restart."),
    "tools": Entry(
        "tools",
        "app",
        LOOK,
        "Tools: list, show, approve; what offers them: entries, add, change, remove, servers.",
    ),
    "skills": Entry("skills", "app", LOOK, "Skills: add, list, show, confirm, remove."),
    "models": Entry("models", "app", LOOK, "Models: add, list, show, change, remove."),
    "config": Entry("config", "app", LOOK, "Entries of the configuration: list, show, set, remove."),
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
    logging.getLogger().addHandler(logging.NullHandler())  # what matters is told; `serve` sets up its log


__all__ = ["COMMANDS", "app"]
