"""The numbers of plugin processes on the host's side: every unit in its name, every reason beside it."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.sandbox.port import SandboxLimits
from hostler_protocol.limits import LEAVE_SECONDS

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds of one connection to a plugin process."""

    handshake_seconds: float = 60.0
    """From the start of the process to its runners: large frameworks take tens of seconds to import."""
    answer_seconds: float = 30.0
    """An answer to `run/start` or `shutdown`; a runner may block its loop for a while."""
    ping_interval_seconds: float = 10.0
    ping_silence_seconds: float = 30.0
    """Nothing heard for so long with a ping unanswered: the process is taken for dead."""
    write_stall_seconds: float = 30.0
    """Bytes wait and none are taken for so long: the process does not read."""
    leave_seconds: float = LEAVE_SECONDS
    """How long a run that the host has ended may stay in the process; the SDK gives it up before."""
    held_result_bytes: int = 16 * MIB
    """Results read and not yet committed; over it reading stops, and the pipe pushes back."""
    write_pause_bytes: int = 1 * MIB
    """Unsent bytes over which streams wait."""
    write_limit_bytes: int = 64 * MIB
    """Unsent bytes over which the connection is given up; eight of the largest answers fit."""
    heavy_calls: int = 8
    """Calls with answers of up to a whole message that are worked on at once; more of them wait."""
    tool_calls: int = 256
    """Calls of a plugin's tools at once; more wait. Well below what a plugin accepts, in number and bytes."""
    tool_cancel_seconds: float = 2.0
    """What a tool that is out of time gets to say how it ended."""
    run_warnings: int = 100
    """Warnings of one run that reach its journal; the rest is only counted."""
    bad_messages_per_minute: int = 20_000
    """Messages that break the rules or name foreign runs; over it the connection is hostile."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Bounds of one plugin process."""

    kill_seconds: float = 8.0
    """From the order to kill everything to giving up on it: the shim itself gives up after 5 s."""
    status_seconds: float = 0.5
    """After the end of its output: how long to wait for the exit status before runs are told."""
    log_file_bytes: int = 4 * MIB
    log_files: int = 3
    """The current file and older ones: what one plugin may write to disk in all."""
    log_bytes_per_second: int = 4 * MIB
    """What is read of its stderr; a plugin that writes more is slowed down, nothing is lost."""
    log_line_bytes: int = 2000
    """Of one line, for the tail that is kept in memory."""
    log_tail_lines: int = 50
    log_notes: int = 250
    """Lines of the host's own that every file begins with: all that one process can be told of, and some."""


@dataclass(frozen=True, slots=True)
class StartLimits:
    """Bounds of starting and restarting."""

    drain_seconds: float = 30.0
    """What a process that is replaced or shut down gets to finish its runs."""
    exit_seconds: float = 5.0
    """From the answer to `shutdown` and the end of its input to the kill."""
    stable_seconds: float = 10.0
    """A process that lived so long after its handshake worked: it is started again after growing waits."""
    slow_seconds: float = 10.0
    """A start that takes so long is told of."""
    forget_seconds: float = 300.0
    """A process that lived so long has forgotten its failures."""
    rejoin_seconds: float = 15.0
    """How long runs wait for a remote process that was lost, or was not there yet since the host began."""
    environment_build_seconds: float = 900.0
    environment_idle_seconds: float = 30 * 24 * 3600.0
    """An environment that no plugin used for so long is removed."""
    environment_bytes: int = 20 * 1024 * MIB
    """What is written while one is built, downloads included; the largest frameworks take six GiB."""
    environment_files: int = 500_000
    environments: int = 40
    """How many are kept at most."""


PLUGIN_LIMITS = SandboxLimits(memory_bytes=2048 * MIB, processes=256)
"""Of a sandboxed plugin, unless its entry says otherwise: frameworks are large and have many threads."""
DEFAULT_CONNECTION_LIMITS = ConnectionLimits()
DEFAULT_PROCESS_LIMITS = ProcessLimits()
DEFAULT_START_LIMITS = StartLimits()
