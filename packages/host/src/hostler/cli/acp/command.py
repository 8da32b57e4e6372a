"""`hostler acp`: serve an editor on standard input and output."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.options import DataOption, KeyOption, TargetArgument, UrlOption, data_directory
from hostler.cli.output import fail, report_errors

if TYPE_CHECKING:
    from hostler.cli.acp.host_access import HostAccess
    from hostler_sdk.stdio import Wires

INSTALL = (
    "`hostler acp` needs the official SDK of the Agent Client Protocol: pip install 'hostler[acp]' "
    "(in a clone: uv sync)"
)


def serve_editor(
    agent: TargetArgument,
    cancel_on_disconnect: Annotated[
        bool,
        typer.Option(
            "--cancel-on-disconnect", help="Cancel active runs when the editor goes; by default they go on."
        ),
    ] = False,
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="LEVEL", help="Of the log on standard error.")
    ] = "warning",
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Offer an agent to an editor that speaks the Agent Client Protocol (Zed, JetBrains, Neovim, acpx).

    The editor starts this command and talks to it on standard input and output.
    """
    try:
        import acp  # noqa: F401
    except ModuleNotFoundError:
        fail(INSTALL)
    from hostler.cli.acp.host_access import HostAccess
    from hostler.cli.acp.wire import check_pipes
    from hostler.cli.logs import set_up_logging
    from hostler.cli.targets import read_target
    from hostler_sdk.stdio import take_stdio

    with report_errors():
        if log_level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            fail(f"--log-level {log_level}: expected debug, info, warning or error", 2)
        target = read_target(agent)
        check_pipes()
        wires = take_stdio()
        set_up_logging(log_level)
        host = HostAccess(target, url, key, data_directory(data))
        asyncio.run(_serve(host, wires, cancel_on_disconnect=cancel_on_disconnect))


async def _serve(host: HostAccess, wires: Wires, *, cancel_on_disconnect: bool) -> None:
    """Serve until the editor is gone, or the command is interrupted."""
    from hostler.cli.acp.agent import AcpAgent
    from hostler.cli.acp.wire import EditorTransport, open_streams
    from hostler.cli.run_output import interrupts

    transport = EditorTransport(*await open_streams(wires))
    agent = AcpAgent(host, transport, cancel_on_disconnect=cancel_on_disconnect)
    async with interrupts() as interrupted:
        serving = asyncio.create_task(agent.serve())
        stopping = asyncio.create_task(interrupted.wait())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (serving, stopping):
                task.cancel()
            await asyncio.gather(serving, stopping, return_exceptions=True)
            await host.close()
