"""Start the process of a plugin on this host: its environment, its sandbox, its pipes, its handshake."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from hostler.plugins.connection import PluginConnection
from hostler.plugins.context import OnViolation, PluginContext, RunningPlugin
from hostler.plugins.logs import PluginLog
from hostler.plugins.process import PluginProcess, start_process, start_sandboxed
from hostler.plugins.sandbox_spec import network_warnings, spec_of, workspace_of
from hostler.plugins.source import Folder, Launch, SingleFile, argv_of, launch_of, process_environment
from hostler.plugins.stdio import StdioTransport
from hostler.sandbox.process import Command
from hostler_protocol.errors import PluginStartError

LASTING_EXIT_STATUS = 3
"""Exit status of a process that explains itself why it cannot be loaded."""


@dataclass(frozen=True, slots=True)
class _Confined:
    process: PluginProcess
    level: str
    warnings: tuple[str, ...] = ()


async def start_plugin(
    key: str,
    source: Folder | SingleFile,
    context: PluginContext,
    *,
    spawn: Callable[[Coroutine[Any, Any, None]], None],
    on_violation: OnViolation,
) -> RunningPlugin:
    """Start the plugin from its current files and do the handshake. Raises PluginStartError with the reason.

    `spawn` runs the clean-up after the process in the background.
    """
    try:
        launch = await asyncio.to_thread(launch_of, source)
    except PluginStartError as error:
        raise PluginStartError(error.message, lasting=True) from error
    if launch.identity.key != key:
        text = f"its manifest now names {launch.identity.key}; add it again under that name"
        raise PluginStartError(text, lasting=True)
    python = await context.environments.python_for(
        launch.requires, base=launch.cwd, allowed=launch.allow_requires
    )
    author, _, name = key.partition("/")
    log = PluginLog(context.log_folder / author / f"{name}.log", context.process_limits)
    marker = secrets.token_hex(16)
    context.register.enter(marker)
    try:
        if isinstance(source, SingleFile) or source.level == "trusted":
            confined = await _start_trusted(launch, python, context, log, marker)
        else:
            confined = await _start_sandboxed(
                source, launch, python, context, log=log, marker=marker, on_violation=on_violation
            )
    except BaseException:
        context.register.leave(marker)
        log.close()
        raise
    process = confined.process
    spawn(_clean_up_after(process, log, context))
    connection = PluginConnection(key, limits=context.connection_limits)
    transport = await StdioTransport.open(process, connection)
    try:
        await connection.open(transport)
    except PluginStartError as error:
        await process.wait_gone()
        lasting = log.error is not None or error.details.get("exit_status") == LASTING_EXIT_STATUS
        raise PluginStartError(error.message, lasting=lasting or error.details.get("lasting")) from error
    return RunningPlugin(
        connection, transport, context.clock(), process, log, confined.level, confined.warnings
    )


async def _start_trusted(
    launch: Launch, python: str, context: PluginContext, log: PluginLog, marker: str
) -> _Confined:
    command = Command(
        argv=[*context.command_prefix, *argv_of(launch, python)],
        cwd=launch.cwd,
        environment=process_environment(launch, python),
        containment=context.containment,
    )
    process = await start_process(command, log, marker=marker, limits=context.process_limits)
    return _Confined(process, "trusted")


async def _start_sandboxed(
    source: Folder,
    launch: Launch,
    python: str,
    context: PluginContext,
    *,
    log: PluginLog,
    marker: str,
    on_violation: OnViolation,
) -> _Confined:
    sandbox = await context.sandbox()
    workspace = await asyncio.to_thread(workspace_of, context.workspaces, launch.identity.key, source.limits)
    spec = spec_of(source, launch, python, workspace, context.data_dir)
    weakness = () if sandbox.weakness is None else (sandbox.weakness,)
    warnings = (*weakness, *network_warnings(source, launch))
    for warning in warnings:
        log.note(warning)
    process = await start_sandboxed(
        sandbox, spec, log, marker=marker, on_violation=on_violation, limits=context.process_limits
    )
    return _Confined(process, f"sandboxed by {sandbox.mechanism}", warnings)


async def _clean_up_after(process: PluginProcess, log: PluginLog, context: PluginContext) -> None:
    await asyncio.shield(process.gone)
    if process.log_finished is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(context.process_limits.status_seconds):
                await asyncio.shield(process.log_finished)
    log.note("ended")
    log.close()
    context.register.leave(process.marker)
