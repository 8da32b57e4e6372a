"""Decide whether a plugin process is alive and reading. Pure, driven by ticks."""

from __future__ import annotations

from hostler.plugins.limits import ConnectionLimits

TICKS_PER_SILENCE = 6
"""Silence is counted in this many ticks, so that one stall of the host's own loop counts as a single tick."""
PATIENCE = 10
"""A process that sends messages but never answers a ping gets this many times the silence."""


class Liveness:
    """Liveness of one connection; `tick` returns what is wrong, if anything."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self.tick_seconds = min(
            limits.ping_interval_seconds,
            limits.ping_silence_seconds / TICKS_PER_SILENCE,
            limits.write_stall_seconds / TICKS_PER_SILENCE,
        )
        self._since_answer = 0.0
        self._since_word = 0.0
        self._since_ping = 0.0
        self._waiting = False
        self._stalled = 0.0
        self._taken = 0

    def heard(self) -> None:
        """Note that something arrived."""
        self._since_word = 0.0

    def answered(self) -> None:
        """Note that the ping was answered."""
        self._waiting = False
        self._since_answer = 0.0

    def pinged(self) -> None:
        """Note that a ping was sent."""
        self._waiting = True
        self._since_ping = self._since_answer = self._since_word = 0.0

    @property
    def ping_is_due(self) -> bool:
        """Whether a ping is due."""
        return not self._waiting and self._since_ping >= self._limits.ping_interval_seconds

    def tick(self, *, reading: bool, sent: int, unsent: int) -> str | None:
        """Advance by `tick_seconds`. Return the reason to give up on the process, or None.

        `sent` counts all bytes so far, `unsent` those not read yet. While the host itself does not read,
        silence means nothing.
        """
        self._since_ping += self.tick_seconds
        if reading and self._waiting:
            self._since_answer += self.tick_seconds
            self._since_word += self.tick_seconds
        taken = sent - unsent
        self._stalled = self._stalled + self.tick_seconds if unsent and taken == self._taken else 0.0
        self._taken = taken
        silence = self._limits.ping_silence_seconds
        if self._waiting and self._since_word >= silence:
            return f"the process has not answered a ping for {silence:g} s"
        if self._waiting and self._since_answer >= silence * PATIENCE:
            return f"the process sends messages, but has not answered a ping for {silence * PATIENCE:g} s"
        if unsent >= self._limits.write_pause_bytes and self._stalled >= self._limits.write_stall_seconds:
            return f"the process has read nothing for {self._stalled:g} s while {unsent:,} bytes wait for it"
        return None
