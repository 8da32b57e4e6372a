"""`hostler`: all commands, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable

import typer

from hostler.cli import (
    agents,
    audit,
    backup,
    config,
    configuration,
    conform,
    dev,
    doctor,
    gc,
    keys,
    models,
    pauses,
    plugins,
    reruns,
    runs,
    scaffold,
    skills,
    tools,
)
from hostler.cli import chat as chat_command
from hostler.cli import demo as demo_command
from hostler.cli import replay as replay_command
from hostler.cli import run as run_command
from hostler.cli import serve as serve_command
from hostler.version import VERSION

app = typer.Typer(
    name="hostler",
    help="A durable host for AI agents of any framework and language.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
START, OPERATE, LOOK = "Start", "Operate", "Look and change"
COMMANDS: tuple[tuple[str, dict[str, Callable[..., None]]], ...] = (
    (
        START,
        {
            "demo": demo_command.demo,
            "run": run_command.run,
            "chat": chat_command.chat,
            "dev": dev.dev,
            "test": conform.conform,
            "replay": replay_command.replay,
        },
    ),
    (
        OPERATE,
        {
            "serve": serve_command.serve,
            "apply": configuration.apply,
            "export": configuration.export,
            "doctor": doctor.doctor,
            "backup": backup.backup,
            "restore": backup.restore,
            "gc": gc.gc,
        },
    ),
)
for panel, commands in COMMANDS:
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)
for name, group, panel in (
    ("new", scaffold.app, START),
    ("runs", runs.app, LOOK),
    ("pauses", pauses.app, LOOK),
    ("agents", agents.app, LOOK),
    ("plugins", plugins.app, LOOK),
    ("tools", tools.app, LOOK),
    ("skills", skills.app, LOOK),
    ("models", models.app, LOOK),
    ("config", config.app, LOOK),
    ("keys", keys.app, LOOK),
    ("audit", audit.app, OPERATE),
):
    app.add_typer(group, name=name, rich_help_panel=panel)

for name, command in (
    ("export", reruns.export),
    ("steps", reruns.steps),
    ("retry", reruns.retry),
    ("fork", reruns.fork),
):
    runs.app.command(name)(command)


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


__all__ = ["app"]
