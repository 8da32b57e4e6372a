"""Limits of plugin processes on the host's side, each with its unit and its reason."""

from __future__ import annotations

from hostler.domain.record import Record
from hostler.sandbox.port import MIB, SandboxLimits
from hostler_protocol.limits import LEAVE_SECONDS


class ConnectionLimits(Record):
    """Limits of one connection to a plugin process."""

    handshake_seconds: float = 60.0
    """From the start of the process to its list of runners: large frameworks take tens of seconds to
    import."""
    answer_seconds: float = 30.0
    """For an answer to `run/start` or `shutdown`; a runner may block its loop for a while."""
    ping_interval_seconds: float = 10.0
    ping_silence_seconds: float = 30.0
    """With a ping unanswered and nothing received for this long, the process counts as dead."""
    write_stall_seconds: float = 30.0
    """If waiting bytes are not read for this long, the process counts as stuck."""
    leave_seconds: float = LEAVE_SECONDS
    """How long a run ended by the host may stay in the process; the SDK gives up on it earlier."""
    held_result_bytes: int = 16 * MIB
    """Results read and not yet committed; above it reading stops, which blocks the plugin's writes."""
    write_pause_bytes: int = 1 * MIB
    """Unsent bytes above which streams wait."""
    write_limit_bytes: int = 64 * MIB
    """Unsent bytes above which the connection is closed; eight of the largest answers fit."""
    heavy_calls: int = 8
    """Concurrent calls whose answers may be as large as a message; more of them wait."""
    tool_calls: int = 256
    """Concurrent calls of a plugin's tools; more wait. Well below what a plugin accepts, in number and
    bytes."""
    tool_cancel_seconds: float = 2.0
    """How long a cancelled tool may take to report its outcome."""
    run_warnings: int = 100
    """Warnings of one run in its journal; further ones are only counted."""
    bad_messages_per_minute: int = 20_000
    """Messages that break the protocol or name other plugins' runs; above it the connection is hostile."""


class ProcessLimits(Record):
    """Limits of one plugin process."""

    kill_seconds: float = 8.0
    """How long to wait after a kill before giving up; the shim itself gives up after 5 s."""
    status_seconds: float = 0.5
    """How long to wait for the exit status after the end of output, before the runs are ended."""
    log_file_bytes: int = 4 * MIB
    log_files: int = 3
    """The current file and older ones, which bounds what one plugin writes to disk."""
    log_bytes_per_second: int = 4 * MIB
    """Read rate of its stderr; a plugin that writes more is slowed down, nothing is lost."""
    log_line_bytes: int = 2000
    """Length of a line in the tail that is kept in memory."""
    log_tail_lines: int = 50
    log_notes: int = 250
    """Lines written by the host, repeated at the start of every file: more than one process can cause."""


class StartLimits(Record):
    """Limits of starting and restarting."""

    drain_seconds: float = 30.0
    """How long a process that is replaced or shut down may take to finish its runs."""
    exit_seconds: float = 5.0
    """From the answer to `shutdown` and the end of its input until it is killed."""
    stable_seconds: float = 10.0
    """A process that lived this long after its handshake worked: its end does not open the breaker. A remote
    one that leaves sooner, several times in a row, may not connect for a while."""
    slow_seconds: float = 10.0
    """A start that takes this long is reported."""
    forget_seconds: float = 300.0
    """After living this long a process's earlier failures are forgotten."""
    rejoin_seconds: float = 15.0
    """How long runs wait for a remote process that was lost, or has not connected since the host started."""
    costly_seconds: float = 10.0
    """A start that fails after this long is not tried again soon: it may have used a processor meanwhile."""
    environment_builds: int = 2
    """Environments built at once; other plugins wait for theirs."""
    environment_build_seconds: float = 900.0
    environment_idle_seconds: float = 30 * 24 * 3600.0
    """An environment unused for this long is removed."""
    environment_bytes: int = 20 * 1024 * MIB
    """Bytes written during a build, downloads included; the largest frameworks need six GiB."""
    environment_files: int = 500_000
    environments: int = 40
    """The most environments kept."""


PLUGIN_LIMITS = SandboxLimits(memory_bytes=2048 * MIB, processes=256)
"""Default limits of a sandboxed plugin: frameworks are large and have many threads."""
DEFAULT_CONNECTION_LIMITS = ConnectionLimits()
DEFAULT_PROCESS_LIMITS = ProcessLimits()
DEFAULT_START_LIMITS = StartLimits()
