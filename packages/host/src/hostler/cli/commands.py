"""`hostler`: the table of all commands. A command's module is imported when it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import typer

from hostler.cli.lazy import CliCommand, LazyGroup
from hostler.version import VERSION

START, OPERATE, LOOK = "Start", "Operate", "Inspect and change"
COMMANDS: Mapping[str, CliCommand] = {
    "demo": CliCommand(
        "demo",
        "demo",
        START,
        "Start a server with example agents and chat with them; without a terminal, play a short "
        "conversation.",
    ),
    "run": CliCommand("run", "run", START, "Run an agent once and stream its output."),
    "chat": CliCommand(
        "chat",
        "chat",
        START,
        "Chat with an agent: answers stream, you can write meanwhile, and you approve or deny its calls.",
    ),
    "acp": CliCommand(
        "acp.command",
        "serve_editor",
        START,
        "Offer an agent to an editor that speaks the Agent Client Protocol (Zed, JetBrains, Neovim, acpx).",
    ),
    "dev": CliCommand(
        "dev", "dev", START, "Serve a plugin to a running host while you work on it; each change restarts it."
    ),
    "test": CliCommand(
        "conform", "conform", START, "Run the conformance tests of the protocol against a plugin."
    ),
    "replay": CliCommand(
        "replay",
        "replay",
        START,
        "Repeat recorded runs without models, tools or network, and report where a runner now differs.",
    ),
    "new": CliCommand("scaffold", "app", START, "Create a plugin of your own: `hostler new runner NAME`."),
    "serve": CliCommand(
        "serve",
        "serve",
        OPERATE,
        "Start the host: it takes events over HTTP, runs agents and streams results.",
    ),
    "worker": CliCommand(
        "worker",
        "worker",
        OPERATE,
        "Run plugins of a host on this machine, for the agents that ask for its labels.",
    ),
    "apply": CliCommand(
        "configuration",
        "apply",
        OPERATE,
        "Apply a configuration file. Entries that it does not name stay, unless --prune.",
    ),
    "export": CliCommand(
        "configuration",
        "export",
        OPERATE,
        "Write the configuration as one file for `hostler apply`.",
    ),
    "import": CliCommand("imports", "app", OPERATE, "Import the configuration of another program: langbot."),
    "doctor": CliCommand(
        "doctor",
        "doctor",
        OPERATE,
        "Check Python, SQLite, the sandbox, the data directory, the server and its plugins.",
    ),
    "backup": CliCommand(
        "backup",
        "backup",
        OPERATE,
        "Copy the database and files into a new folder as one consistent state, also while a server runs.",
    ),
    "restore": CliCommand(
        "backup",
        "restore",
        OPERATE,
        "Restore a backup into a data directory without a database. Every file is verified.",
    ),
    "gc": CliCommand(
        "gc",
        "gc",
        OPERATE,
        "Delete expired artifacts, unfinished uploads, unused files and working folders, and old data by "
        "age.",
    ),
    "audit": CliCommand("audit", "app", OPERATE, "The audit log: list, verify."),
    "runs": CliCommand("runs", "app", LOOK, "Runs: list, sum up, show, follow, cancel, export, retry, fork."),
    "conversations": CliCommand(
        "conversations", "app", LOOK, "Conversations: list, search, rename, fork, delete."
    ),
    "explain": CliCommand(
        "explain", "explain", LOOK, "Say which rule decided a call of a run, and who approved it."
    ),
    "pauses": CliCommand(
        "pauses", "app", LOOK, "Calls and questions that wait for people: list, show, decide."
    ),
    "console": CliCommand("console", "console", LOOK, "Open the console in the browser, signed in."),
    "usage": CliCommand(
        "usage",
        "usage",
        LOOK,
        "Sum up runs, tokens, cost, failures and latency, by agent, person, model or workspace.",
    ),
    "budgets": CliCommand("budgets", "app", LOOK, "Budgets: list, show, add to them."),
    "agents": CliCommand(
        "agents",
        "app",
        LOOK,
        "Agents: add, list, show, versions, change, remove. `hostler apply` adds many at once.",
    ),
    "events": CliCommand(
        "events", "app", LOOK, "Events: list, show, send again, and explain which agent takes one."
    ),
    "hooks": CliCommand(
        "hooks", "app", LOOK, "Hooks for other services: add, list, show, test, send, change, remove."
    ),
    "schedules": CliCommand(
        "schedules",
        "app",
        LOOK,
        "Schedules: add, list, show, next, history, change, pause, resume, run, remove.",
    ),
    "widgets": CliCommand(
        "widgets", "app", LOOK, "Widgets, chats for web pages: add, list, show, change, remove."
    ),
    "runners": CliCommand(
        "runners",
        "runners",
        LOOK,
        "List the runners that come with the host, whether agents use them or not.",
    ),
    "plugins": CliCommand(
        "plugins", "app", LOOK, "Plugins: add, list, show, confirm, change, remove, logs, restart."
    ),
    "workers": CliCommand(
        "workers",
        "app",
        LOOK,
        "Remote workers: list, show, drain, cordon, uncordon, remove. `hostler worker` starts one.",
    ),
    "channels": CliCommand("channels", "app", LOOK, "Channels: add, list, show, change, remove, restart."),
    "people": CliCommand(
        "people",
        "app",
        LOOK,
        "People of channels: list, waiting, confirm, reject, code, link, unlink.",
    ),
    "outbox": CliCommand("outbox", "app", LOOK, "Messages sent through channels: list, show, resend, drop."),
    "tools": CliCommand(
        "tools",
        "app",
        LOOK,
        "Tools: list, show, test, approve; their entries: entries, add, change, remove; servers, reconnect.",
    ),
    "knowledge": CliCommand(
        "knowledge",
        "app",
        LOOK,
        "Knowledge bases: add, list, show, set, remove; their documents: upload, documents, read, reindex, "
        "delete; search.",
    ),
    "skills": CliCommand("skills", "app", LOOK, "Skills: add, list, show, confirm, remove."),
    "models": CliCommand("models", "app", LOOK, "Models: add, list, show, test, change, remove."),
    "config": CliCommand("config", "app", LOOK, "Configuration entries: list, show, set, remove."),
    "quotas": CliCommand("quotas", "app", LOOK, "Quotas: list what is stored, and the limits."),
    "members": CliCommand("members", "app", LOOK, "Members: add, list, set-role, remove."),
    "keys": CliCommand("keys", "app", LOOK, "API keys: create, list, revoke."),
    "tokens": CliCommand("tokens", "app", LOOK, "Front-end tokens for browsers: create, list, revoke."),
    "secrets": CliCommand(
        "secrets", "app", LOOK, "Stored secrets: set, list, rotate, remove, move; keys of encryption."
    ),
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
