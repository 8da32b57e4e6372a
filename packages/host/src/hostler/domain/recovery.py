"""What becomes of a run whose plugin process or host was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hostler.domain.agents import OnCrash, Recovery
from hostler_protocol.errors import RunFailure

Cause = Literal["plugin", "host"]
Action = Literal["resume", "restart", "fail", "cancel"]
STATUS_CODES: dict[Cause, RunFailure] = {"plugin": "runner.crashed", "host": "host.restarted"}
MAX_DELAY_SECONDS = 30
"""The longest back-off between two attempts. The second one begins at once: most crashes come once."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """`resume`: a new attempt goes on from the journal; `restart`: it begins from nothing; `fail`, `cancel`.

    `why` for the journal; `status_code` where it ends; `delay_seconds` before the new attempt.
    """

    action: Action
    why: str
    status_code: RunFailure
    delay_seconds: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether there is a new attempt."""
        return self.action in {"resume", "restart"}


def settle(
    policy: Recovery,
    *,
    cause: Cause,
    resumable: bool,
    crashes: int,
    had_effects: bool,
    cancelled: bool,
    handed_over: bool = False,
) -> Settlement:
    """Decide by the agent's policy.

    `crashes`: recoveries so far. `had_effects`: the attempt completed a message or made a call that changed
    something, so that doing it all again would do it twice: where the policy says `resume` and the runner is
    not resumable, that decides between beginning again and failing. `handed_over`: the host gave the run back
    in order, which is no crash.
    """
    code = STATUS_CODES[cause]
    lost = "the plugin process ended" if cause == "plugin" else "the host ended"
    wanted: OnCrash = policy.on_crash or ("resume" if resumable else "fail")
    if cancelled:
        return Settlement("cancel", f"{lost} while the run was being cancelled", "cancelled")
    if wanted == "fail":
        return Settlement("fail", f"{lost} during the run; the agent's policy is fail", code)
    if crashes + 1 >= policy.max_attempts and not handed_over:
        why = f"{lost} during the run, {crashes + 1} times by now: no attempt left"
        return Settlement("fail", why, code)
    delay = min(MAX_DELAY_SECONDS, 2 ** min(crashes - 1, 10)) if crashes else 0
    if wanted == "resume" and resumable:
        return Settlement("resume", f"{lost} during the run; it goes on from its journal", code, delay)
    if wanted == "resume" and had_effects:
        why = f"{lost} during the run, and beginning again would repeat what it did"
        return Settlement("fail", why, code)
    return Settlement("restart", f"{lost} during the run; it begins again", code, delay)
