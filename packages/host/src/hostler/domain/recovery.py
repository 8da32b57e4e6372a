"""What becomes of a run whose plugin process or host was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hostler.domain.agents import OnCrash, Recovery
from hostler.domain.back_off import back_off
from hostler_protocol.errors import HostError, HostlerError, PayloadTooLargeError, PluginError, RunFailure

Cause = Literal["plugin", "host"]
Action = Literal["resume", "restart", "repeat", "fail", "cancel"]
STATUS_CODES: dict[Cause, RunFailure] = {"plugin": "runner.crashed", "host": "host.restarted"}
MAX_DELAY_SECONDS = 30
"""The longest back-off between two attempts. The second one begins at once: most crashes come once."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """`resume`: a new attempt goes on from the journal; `restart`: it begins from nothing; `repeat`: it
    begins like the lost one, with the state and decisions of the runner's own pause; `fail`, `cancel`.

    `why` for the journal; `status_code` where it ends; `delay_seconds` before the new attempt. `undone`: the
    attempt went on from the runner's own pause and had done nothing yet; `begun` False: it could not be
    begun. Neither is a recovery. `otherwise`: what follows where the runner has put another question to
    people by then, so that something was done.
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
    """Decide by the agent's policy; of an attempt that was `undone`, whatever the policy says.

    `crashes`: recoveries so far. `had_effects`: the attempt completed a message or made a call that changed
    something, so that doing it all again would do it twice: where the policy says `resume` and the runner is
    not resumable, that decides between beginning again and failing. `handed_over`: the host gave the run back
    in order, which is no crash.
    """
    code = STATUS_CODES[cause]
    lost = "the plugin process ended" if cause == "plugin" else "the host ended"
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
        why = f"{lost} before the run had gone on from its pause; it is begun again with the same decisions"
        action: Action = "resume" if resumable else "repeat"
        return Settlement(action, why, code, undone=True, otherwise=by_policy)
    if (why_not := _refused(wanted, policy, resumable, crashes, had_effects, handed_over)) is not None:
        return Settlement("fail", f"{lost} during the run{why_not}", code)
    delay = int(back_off(crashes, 1, MAX_DELAY_SECONDS)) if crashes else 0
    if wanted == "resume" and resumable:
        return Settlement("resume", f"{lost} during the run; it goes on from its journal", code, delay)
    return Settlement("restart", f"{lost} during the run; it begins again", code, delay)


def _refused(  # noqa: PLR0917
    wanted: OnCrash,
    policy: Recovery,
    resumable: bool,
    crashes: int,
    had_effects: bool,
    handed_over: bool,
) -> str | None:
    """Why there is no further attempt; None: there is one."""
    if wanted == "fail":
        return "; the agent's policy is fail"
    if crashes + 1 >= policy.max_attempts and not handed_over:
        return f", {crashes + 1} times by now: no attempt left"
    if wanted == "resume" and had_effects and not resumable:
        return ", and beginning again would repeat what it did"
    return None


def postpone(why: str, code: RunFailure, *, own_pause: bool, by_plugin: bool) -> Settlement:
    """What follows where an attempt that people decided for could not be begun: it is tried again.

    `own_pause`: the runner paused the run itself; `by_plugin`: its plugin does not start, or has just died.
    """
    again = f"it could not be begun, and is tried again: {why}"
    return Settlement("resume", again, code, undone=own_pause and by_plugin, begun=False)


def failure_of(error: HostlerError) -> RunFailure:
    """What a run ends with whose attempt could not be started."""
    code: RunFailure = "runner.config_invalid"
    if isinstance(error, PluginError):
        code = error.status_code
    elif isinstance(error, HostError):
        code = "host.error"
    elif isinstance(error, PayloadTooLargeError):
        code = "payload_too_large"
    return code
