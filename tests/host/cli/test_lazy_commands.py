"""A command imports what it needs and no other command; its values are what Typer would make of them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from hostler.cli.commands import COMMANDS, app
from hostler.cli.lazy import TESTED_TYPER, convert_plainly
from support.child_plugins import environment

HEAVY = {
    *("email", "httpx", "importlib.metadata", "packaging", "pydantic"),
    *("rich", "sqlite3", "uvicorn", "yaml"),
}
"""A command that asks a server for a list and writes it to a pipe imports none of these."""
HEAVY_OWN = {
    "hostler.host.host",
    "hostler.host.config",
    "hostler.http.app",
    "hostler.storage.sql.database",
    "hostler.journal.feed",
}
LOADED = """
import atexit, sys
atexit.register(lambda: sys.stderr.write("LOADED " + " ".join(sys.modules) + "\\n"))
sys.argv = ["hostler", *sys.argv[1:]]
from hostler.cli.main import main
main()
"""


def loaded_by(*arguments: str, **variables: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("LOADED ")]
    return set(line.split()[1:])


LISTS = ["runs", "agents", "plugins", "tools", "skills", "models", "config", "keys", "pauses"]


@pytest.mark.parametrize("group", LISTS)
def test_a_list_asks_its_server_with_few_imports(group: str) -> None:
    loaded = loaded_by(group, "list", "--url", "http://127.0.0.1:1", "--key", "k")
    assert not (HEAVY | HEAVY_OWN) & loaded
    others = {f"hostler.cli.{entry.module}" for name, entry in COMMANDS.items() if name != group}
    assert not others & loaded


def test_a_run_through_a_server_opens_no_host_and_one_without_imports_no_server(tmp_path: Path) -> None:
    through = loaded_by("run", "someone", "hello", "--url", "http://127.0.0.1:1", "--key", "k")
    assert "hostler.cli.run_once" in through
    assert not {"hostler.host.host", "hostler.http.app", "hostler.storage.sql.database"} & through
    alone = loaded_by("run", "someone", "hello", "--data", str(tmp_path))
    assert "hostler.http.app" in alone  # the API of the host in the command's own process
    assert not {"uvicorn", "h11", "websockets", "packaging", "rich"} & alone


def test_completion_and_help_import_no_command_that_is_not_asked_for() -> None:
    bash = {"COMP_WORDS": "hostler ru", "COMP_CWORD": "1", "_HOSTLER_COMPLETE": "complete_bash"}
    loaded = loaded_by(**bash)
    assert not (HEAVY | HEAVY_OWN) & loaded
    commands = {f"hostler.cli.{entry.module}" for entry in COMMANDS.values()}
    assert not commands & loaded
    assert not commands & loaded_by("--help")
    deeper = loaded_by(**{**bash, "COMP_WORDS": "hostler runs list --st", "COMP_CWORD": "3"})
    assert commands & deeper == {"hostler.cli.runs"}
    assert not (HEAVY | HEAVY_OWN) & deeper


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    entry = COMMANDS[name]
    found = getattr(import_module(f"hostler.cli.{entry.module}"), entry.target)
    told = (found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)) or ""
    assert " ".join(told.split("\n\n")[0].split()) == entry.summary
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"})
    assert entry.summary.replace("`", "") in " ".join(shown.output.replace("`", "").split())


def test_the_conversion_is_tested_with_the_typer_it_names() -> None:
    assert typer.__version__.startswith(TESTED_TYPER)


def taking(
    number: Annotated[int, typer.Option(min=2, max=9)] = 3,
    weight: Annotated[float | None, typer.Option(min=0.5)] = None,
    mode: Annotated[Literal["fast", "slow"], typer.Option()] = "fast",
    file: Annotated[Path | None, typer.Option()] = None,
    kept: Annotated[Path | None, typer.Option(exists=True)] = None,
    name: Annotated[list[str] | None, typer.Option()] = None,
    times: Annotated[list[int] | None, typer.Option()] = None,
    flag: Annotated[bool, typer.Option("--flag")] = False,
    choice: Annotated[bool, typer.Option()] = True,
    text: Annotated[str | None, typer.Argument()] = None,
    rest: Annotated[list[str] | None, typer.Argument()] = None,
) -> None:
    """Takes a value of each type."""
    typer.echo(repr([number, weight, mode, file, kept, name, times, flag, choice, text, rest]))


GIVEN: list[list[str]] = [
    [],
    ["--number", "5", "--weight", "0.5", "--mode", "slow", "--file", "a/b", "--flag", "--no-choice"],
    ["--number", "-5"],
    ["--number", "10"],
    ["--number", "five"],
    ["--number", "5.0"],
    ["--number", " 5"],
    ["--number", "5_0"],
    ["--weight", "7"],
    ["--weight", "1e3"],
    ["--weight", "nan"],
    ["--weight", "0.1"],
    ["--mode", "medium"],
    ["--mode", "FAST"],
    ["--file", "-"],
    ["--file", ""],
    ["--file", "/"],
    ["--kept", "/nowhere"],
    ["--kept", "/"],
    ["--name", "a", "--name", "", "--times", "1", "--times", "2"],
    ["--times", "x"],
    ["one", "two", "three"],
    ["", "--", "-x"],
]


@pytest.mark.parametrize("given", GIVEN, ids=" ".join)
def test_values_and_mistakes_are_as_typer_has_them(
    given: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    def ran(*, quick: bool) -> tuple[object, str, str]:
        alone = typer.Typer(add_completion=False)
        alone.command()(taking)
        command: Any = typer.main.get_command(alone)
        if quick:
            convert_plainly(command)
        with pytest.raises(SystemExit) as ended:
            command.main(args=list(given), prog_name="taking")
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    assert ran(quick=True) == ran(quick=False)
