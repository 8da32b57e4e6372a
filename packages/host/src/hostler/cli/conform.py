"""`hostler test PLUGIN`: run the protocol's conformance suite against a plugin in any language."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.options import DataOption, JsonOption, SettingsOption, data_directory
from hostler.cli.output import FAILED, USAGE, fail, note, report_errors, write_json
from hostler.cli.terminal import err, out

if TYPE_CHECKING:
    from hostler.plugins.source import Folder, SingleFile
    from hostler_sdk.conformance import CheckResult


def conform(
    plugin: Annotated[str, typer.Argument(help="A plugin folder, or file.py:Class.")],
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="Run only this check; repeatable.")
    ] = None,
    faults: Annotated[
        bool,
        typer.Option("--faults", help="Instead, crash host and plugin at every host call of a run."),
    ] = False,
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", metavar="KIND:CALL", help="Only this fault, and its story; repeatable."),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="TEXT", help="With faults: a message to the runner; repeatable."),
    ] = None,
    other: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="FOLDER", help="With faults: a plugin with more tools; repeatable."),
    ] = None,
    settings: SettingsOption = None,
    trusted: Annotated[
        bool,
        typer.Option("--trusted", help="Run a folder as an ordinary process, not in a sandbox."),
    ] = False,
    as_json: JsonOption = False,
    data: DataOption = None,
) -> None:
    """Run the conformance tests of the protocol against a plugin.

    A folder runs in the sandbox that a host would run it in, without network
    and with an empty workspace; a single file is an ordinary process.

    Exit status 1 if it breaks a rule; each failed check shows the rule and
    what was seen. With --faults: if a run did something twice, lost
    something or did it differently after a crash or a late answer.
    """
    if faults or fault:
        from hostler.cli.fault_trial import try_with_faults

        clean = try_with_faults(
            plugin,
            inputs=text or [],
            settings=settings or [],
            others=other or [],
            faults=fault or [],
            trusted=trusted,
            data=data_directory(data),
            as_json=as_json,
        )
        raise typer.Exit(0 if clean else FAILED)
    from hostler.cli.targets import plugin_source
    from hostler_sdk.conformance import CHECKS

    if unknown := sorted(set(only or ()) - CHECKS.keys()):
        fail(f"--only {unknown[0]}: unknown check; the checks are: {', '.join(CHECKS)}", USAGE)
    with report_errors():
        results = asyncio.run(_check(plugin_source(plugin), only, data_directory(data), trusted=trusted))
    if as_json:
        write_json(
            [{"check": r.name, "ok": r.ok, "left_out": r.left_out, "detail": r.detail} for r in results]
        )
    else:
        _show(results)
    raise typer.Exit(0 if all(result.ok for result in results) else FAILED)


async def _check(
    source: Folder | SingleFile, only: list[str] | None, data_dir: Path, *, trusted: bool
) -> list[CheckResult]:
    from hostler.plugins.environment import Environments
    from hostler.plugins.limits import DEFAULT_START_LIMITS
    from hostler.plugins.source import Folder, argv_of, launch_of, process_environment
    from hostler.plugins.tried_plugin import tried_plugin
    from hostler_sdk.conformance import CHECKS, check_plugin, check_started

    launch = launch_of(source)
    environments = Environments(data_dir / "plugins" / "environments", DEFAULT_START_LIMITS)
    python = await environments.python_for(launch.requires, base=launch.cwd)
    checks = tuple(only) if only else tuple(CHECKS)
    testing = f"testing {launch.identity.key}"
    if isinstance(source, Folder) and not trusted:
        async with tried_plugin(source, launch, python, data_dir) as plugin:
            with err().status(f"{testing}, sandboxed by {plugin.mechanism}"):
                results = await check_started(plugin.start, only=checks)
            for text in [*plugin.warnings, *(f"{one.kind}: {one.text}" for one in plugin.violations)]:
                note(f"sandbox: {text}")
            return results
    with err().status(testing):
        environment = process_environment(launch, python)
        return await check_plugin(argv_of(launch, python), cwd=launch.cwd, env=environment, only=checks)


def _show(results: list[CheckResult]) -> None:
    from rich.text import Text

    width = max(len(result.name) for result in results)
    for result in results:
        mark, style = ("✓", "green") if result.ok else ("✗", "bold red")
        if result.left_out:
            mark, style = "-", "dim"
        detail = " ".join(result.detail.split())
        line = Text.assemble(
            (f"{mark} ", style), f"{result.name:{width}}  ", (detail, "dim" if result.ok else "red")
        )
        out().print(line, soft_wrap=True)
    failed = sum(not result.ok for result in results)
    left_out = sum(result.left_out for result in results)
    carried_out = len(results) - left_out
    text = f"{failed} of {carried_out} checks failed" if failed else f"{carried_out} checks passed"
    text += f", {left_out} left out" if left_out else ""
    out().print(Text(text, "bold green" if not failed else "bold red"))
