"""Decide how a run is recovered whose plugin process or host was lost."""

from __future__ import annotations

from typing import Literal

from hostler.domain.agents import OnCrash, Recovery
from hostler.domain.back_off import back_off
from hostler.domain.record import Record
from hostler_protocol.errors import RunFailure

Cause = Literal["plugin", "host"]
Action = Literal["resume", "restart", "repeat", "fail", "cancel"]
STATUS_CODES: dict[Cause, RunFailure] = {"plugin": "runner.crashed", "host": "host.restarted"}
MAX_DELAY_SECONDS = 30
"""The longest back-off between two attempts. The second starts at once: most crashes happen once."""
MAX_BEGINNINGS = 5
"""Attempts that the database may keep from beginning; each waits longer than the one before."""


class Settlement(Record):
    """The decision. `resume`: a new attempt continues from the journal; `restart`: it starts from nothing;
    `repeat`: it starts like the lost one, with the state and decisions of the explicit pause; `fail`,
    `cancel`.

    `why` for the journal; `status_code` if the run ends; `delay_seconds` before the new attempt. `undone`:
    the attempt had resumed from an explicit pause and done nothing yet; `begun` False: it could not be
    started. Neither counts as a recovery. `otherwise`: the settlement to use instead if the runner has asked
    people another question by then, so that something was done.
    """

    action: Action
    why: str
    status_code: RunFailure
    delay_seconds: int = 0
    undone: bool = False
    begun: bool = True
    otherwise: Settlement | None = None

    @property
    def is_recovery(self) -> bool:
        """Whether the new attempt counts against `max_attempts`."""
        return self.begun and not self.undone

    @property
    def goes_on(self) -> bool:
        """Whether there is a new attempt."""
        return self.action in {"resume", "restart", "repeat"}


def settle(
    policy: Recovery,
    *,
    cause: Cause,
    resumable: bool,
    crashes: int,
    had_effects: bool,
    cancelled: bool,
    handed_over: bool = False,
    undone: bool = False,
) -> Settlement:
    """Decide by the agent's policy; an attempt that was `undone` is repeated under any policy.

    `crashes`: recoveries so far. `had_effects`: the attempt completed a message or made a call with an
    effect, so a restart would repeat it; if the policy is `resume` and the runner is not resumable, this
    decides between restart and failure. `handed_over`: the host returned the run in order, which is no crash.
    """
    code = STATUS_CODES[cause]
    lost = "the plugin process ended" if cause == "plugin" else "the host ended"
    if handed_over:
        lost = "the host stopped in order"
    if cancelled:
        return Settlement("cancel", f"{lost} while the run was being cancelled", "cancelled")
    wanted: OnCrash = policy.on_crash or ("resume" if resumable else "fail")
    if undone:
        by_policy = settle(
            policy,
            cause=cause,
            resumable=resumable,
            crashes=crashes,
            had_effects=True,
            cancelled=False,
            handed_over=handed_over,
        )
        why = f"{lost} before the run had resumed from its pause; it is started again with the same decisions"
        action: Action = "resume" if resumable else "repeat"
        return Settlement(action, why, code, undone=True, otherwise=by_policy)
    if (why_not := _refused(wanted, policy, resumable, crashes, had_effects, handed_over)) is not None:
        return Settlement("fail", f"{lost} during the run{why_not}", code)
    delay = int(back_off(crashes, 1, MAX_DELAY_SECONDS)) if crashes else 0
    if wanted == "resume" and resumable:
        return Settlement("resume", f"{lost} during the run; it resumes from its journal", code, delay)
    return Settlement("restart", f"{lost} during the run; it restarts", code, delay)


def _refused(  # noqa: PLR0917
    wanted: OnCrash, policy: Recovery, resumable: bool, crashes: int, had_effects: bool, handed_over: bool
) -> str | None:
    """Return why there is no further attempt, or None if there is one."""
    if wanted == "fail":
        return "; the agent's policy is fail"
    if crashes + 1 >= policy.max_attempts and not handed_over:
        return f", {crashes + 1} times by now: no attempt left"
    if wanted == "resume" and had_effects and not resumable:
        return ", and a restart would repeat what it did"
    return None


def begin_again(why: str, *, crashes: int) -> Settlement:
    """Retry an attempt of which nothing was begun, since the database did not store what comes before that.

    A write that fails once may succeed; what fails each time ends the run after MAX_BEGINNINGS attempts.
    """
    if crashes + 1 >= MAX_BEGINNINGS:
        return Settlement("fail", f"{why}; tried {crashes + 1} times", "host.error")
    delay = int(back_off(crashes, 1, MAX_DELAY_SECONDS)) if crashes else 0
    return Settlement("resume", f"nothing of it was begun, and it is retried: {why}", "host.error", delay)


def leave_to_others(why: str, *, attempt: int) -> Settlement:
    """Queue an attempt of which nothing was begun, since this host cannot read what it needs.

    Another host takes it meanwhile, or this one once it can. That is no fault of the run, and no crash; it
    waits longer each time, until its deadline.
    """
    delay = int(back_off(attempt - 1, 1, MAX_DELAY_SECONDS))
    return Settlement("resume", f"this host leaves it to others: {why}", "host.error", delay, begun=False)


def postpone(why: str, code: RunFailure, *, own_pause: bool, by_plugin: bool) -> Settlement:
    """Retry an attempt that resumes from a pause and could not be started.

    `own_pause`: the pause is explicit, made by the runner; `by_plugin`: its plugin does not start or has
    died.
    """
    again = f"it could not be started, and is retried: {why}"
    return Settlement("resume", again, code, undone=own_pause and by_plugin, begun=False)
