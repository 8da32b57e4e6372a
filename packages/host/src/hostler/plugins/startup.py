"""Start the process of a plugin on this host: its environment, its sandbox, its pipes, its handshake."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from hostler.domain.plugin_pins import PluginFacts
from hostler.domain.record import Record
from hostler.plugins.connection import PluginConnection
from hostler.plugins.context import OnViolation, PluginContext, RunningPlugin
from hostler.plugins.logs import PluginLog
from hostler.plugins.pins import PluginPins, check_unchanged, facts_of
from hostler.plugins.process import PluginProcess, start_process, start_sandboxed
from hostler.plugins.sandbox_spec import network_warnings, spec_of, workspace_of
from hostler.plugins.source import Folder, Launch, SingleFile, argv_of, launch_of, process_environment
from hostler.plugins.stdio import StdioTransport
from hostler.sandbox.process import Command
from hostler_protocol.errors import PluginStartError

LASTING_EXIT_STATUS = 3
"""Exit status of a process that explains itself why it cannot be loaded."""


class ConfinedProcess(Record):
    """The process of a plugin. `level`: how it is confined; `warnings`: defects of its sandbox."""

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
    pins = context.pins if isinstance(source, Folder) and source.pin is not None else None
    facts = None if pins is None else await admitted(key, source, pins)
    python = await _interpreter(key, launch, context, pins)
    confined = await start_confined(
        key, source, launch, python, context, spawn=spawn, on_violation=on_violation
    )
    process, log = confined.process, confined.process.log
    connection = PluginConnection(key, limits=context.connection_limits)
    transport = await StdioTransport.open(process, connection)
    try:
        await connection.open(transport)
    except PluginStartError as error:
        await process.wait_gone()
        lasting = log.error is not None or error.details.get("exit_status") == LASTING_EXIT_STATUS
        raise PluginStartError(error.message, lasting=lasting or error.details.get("lasting")) from error
    if facts is not None and isinstance(source, Folder):
        try:
            await check_unchanged(source, facts)
        except PluginStartError:
            connection.abort("its files changed while it started")
            await process.wait_gone()
            raise
    return RunningPlugin(
        connection, transport, context.clock(), process, log, confined.level, confined.warnings
    )


async def start_confined(
    key: str,
    source: Folder | SingleFile,
    launch: Launch,
    python: str,
    context: PluginContext,
    *,
    spawn: Callable[[Coroutine[Any, Any, None]], None],
    on_violation: OnViolation,
) -> ConfinedProcess:
    """Start the process of a plugin, with its log, in its sandbox or trusted. Raises PluginStartError."""
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
    spawn(_clean_up_after(confined.process, log, context))
    return confined


async def record_pin(key: str, source: Folder, context: PluginContext) -> None:
    """Record what a plugin is that discovery has started, and what its requirements were resolved to.

    PluginStartError if the operator knows it otherwise.
    """
    if context.pins is not None and source.pin is not None:
        await admitted(key, source, context.pins)
        await _interpreter(key, await asyncio.to_thread(launch_of, source), context, context.pins)


async def admitted(key: str, source: Folder | SingleFile, pins: PluginPins) -> PluginFacts:
    """Return what the folder is, if the operator knows it so. Raises PluginStartError."""
    assert isinstance(source, Folder)
    facts = await asyncio.to_thread(facts_of, source)
    await pins.admit(key, facts)
    return facts


async def _interpreter(key: str, launch: Launch, context: PluginContext, pins: PluginPins | None) -> str:
    """Return the interpreter of the plugin's environment, by the lock if there is one; keep the lock."""
    requires, base, allowed = launch.requires, launch.cwd, launch.allow_requires
    if pins is None or not requires:
        return await context.environments.python_for(requires, base=base, allowed=allowed)
    build = partial(context.environments.build, requires, base=base, allowed=allowed)
    lock = await pins.lock(key)
    python, plan = await build(plan=lock)
    if lock is None and (kept := await pins.keep_lock(key, plan)) != plan:
        python, _ = await build(plan=kept)
    return python


async def _start_trusted(
    launch: Launch, python: str, context: PluginContext, log: PluginLog, marker: str
) -> ConfinedProcess:
    command = Command(
        argv=[*context.command_prefix, *argv_of(launch, python)],
        cwd=launch.cwd,
        environment=process_environment(launch, python),
        containment=context.containment,
    )
    for warning in launch.notes:
        log.note(warning)
    process = await start_process(command, log, marker=marker, limits=context.process_limits)
    return ConfinedProcess(process, "trusted", launch.notes)


async def _start_sandboxed(
    source: Folder,
    launch: Launch,
    python: str,
    context: PluginContext,
    *,
    log: PluginLog,
    marker: str,
    on_violation: OnViolation,
) -> ConfinedProcess:
    sandbox = await context.sandbox()
    workspace = await asyncio.to_thread(workspace_of, context.workspaces, launch.identity.key, source.limits)
    spec = spec_of(source, launch, python, workspace, context.data_dir)
    weakness = () if sandbox.weakness is None else (sandbox.weakness,)
    warnings = (*weakness, *network_warnings(source, launch), *launch.notes)
    for warning in warnings:
        log.note(warning)
    process = await start_sandboxed(
        sandbox, spec, log, marker=marker, on_violation=on_violation, limits=context.process_limits
    )
    return ConfinedProcess(process, f"sandboxed by {sandbox.mechanism}", warnings)


async def _clean_up_after(process: PluginProcess, log: PluginLog, context: PluginContext) -> None:
    await asyncio.shield(process.gone)
    if process.log_finished is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(context.process_limits.status_seconds):
                await asyncio.shield(process.log_finished)
    log.note("ended")
    log.close()
    context.register.leave(process.marker)
