"""`hostler test FOLDER --faults`: a runner in a simulated world, with crashes and late answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hostler.cli.fault_page import DEFAULT_INPUT, page, plain_page
from hostler.cli.output import report_errors, write_json
from hostler.cli.run import parse_settings
from hostler.cli.targets import plugin_folder
from hostler.cli.terminal import err, out
from hostler.sandbox.probe import find_sandbox
from hostler.simulation.faults.report import is_clean
from hostler.simulation.faults.trial import Lived, try_faults


def try_with_faults(
    plugin: str,
    *,
    inputs: Sequence[str],
    settings: list[str],
    others: Sequence[str],
    faults: Sequence[str],
    trusted: bool,
    data: Path,
    as_json: bool,
) -> bool:
    """Print what came of it. Return whether nothing was found."""
    with report_errors(), err().status(f"testing {plugin}") as status:

        def show(lived: Lived) -> None:
            status.update(f"testing {plugin}: {lived.runner}, life {lived.lives} of {lived.of}")

        folder, runner = plugin_folder(plugin)
        reports = try_faults(
            folder,
            runner=runner,
            inputs=inputs or [DEFAULT_INPUT],
            config=parse_settings(settings),
            others=[plugin_folder(other)[0] for other in others],
            faults=faults,
            environments=data / "plugins" / "environments",
            sandbox=None if trusted else asyncio.run(find_sandbox()),
            on_lived=show,
        )
    if as_json:
        write_json(msgspec.to_builtins(reports))
    else:
        options = [word for other in others for word in ("--with", other)]
        options += [word for setting in settings for word in ("--set", setting)]
        if out().is_terminal:
            out().print(page(plugin, reports, options), crop=False)
        else:
            out().print(plain_page(plugin, reports, options), markup=False)
    return is_clean(reports)
