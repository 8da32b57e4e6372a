"""`hostler`: the command line's entry."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import typer

from hostler.cli import (
    agents,
    audit,
    backup,
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
    tools,
)
from hostler.cli import chat as chat_command
from hostler.cli import demo as demo_command
from hostler.cli import replay as replay_command
from hostler.cli import run as run_command
from hostler.cli import serve as serve_command
from hostler.cli.output import INTERRUPTED, fail, show_error
from hostler_protocol.errors import HostlerError

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
    ("models", models.app, LOOK),
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
        from hostler.version import VERSION

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


def main() -> None:
    """Run the command line. Errors end it with one line; what nobody foresaw is written to a file."""
    try:
        if sys.argv[1:] == ["--version"]:  # asked by programs, often: without a word of the rest
            _version(True)
        app()
    except typer.Exit:
        pass
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except HostlerError as error:
        show_error(error.message)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)  # whoever read our output has left
    except Exception:  # noqa: BLE001 - the top of the program: people get one line, and where the rest is
        sys.exit(_report())


def _report() -> int:
    import tempfile
    import traceback
    from pathlib import Path

    with tempfile.NamedTemporaryFile(
        "w", prefix="hostler-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"{sys.argv}\n{traceback.format_exc()}")
    show_error(
        f"this is a mistake in hostler; what happened is written in {Path(file.name)}: please report it"
    )
    return 1


__all__ = ["app", "fail", "main"]


if __name__ == "__main__":
    main()
