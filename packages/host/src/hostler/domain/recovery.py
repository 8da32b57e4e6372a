"""What becomes of a run whose plugin process or host was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hostler.domain.agents import OnCrash, Recovery

Cause = Literal["plugin", "host"]
STATUS_CODES: dict[Cause, str] = {"plugin": "runner.crashed", "host": "host.restarted"}


@dataclass(frozen=True, slots=True)
class Settlement:
    """`restart`: queued again for a new attempt; else it fails with `status_code`. `why` for the journal."""

    restart: bool
    why: str
    status_code: str


def settle(
    policy: Recovery, *, cause: Cause, resumable: bool, crashes: int, had_effects: bool, cancelled: bool
) -> Settlement:
    """Decide by the agent's policy.

    `crashes`: recoveries so far. `had_effects`: the attempt completed a message or made a call that changed
    something, so that doing it all again would do it twice. Until attempts can be resumed from their journal,
    `resume` begins again where that repeats nothing, and fails where it would.
    """
    code = STATUS_CODES[cause]
    lost = "the plugin process ended" if cause == "plugin" else "the host ended"
    wanted: OnCrash = policy.on_crash or ("resume" if resumable else "fail")
    if cancelled:
        return Settlement(False, f"{lost} while the run was being cancelled", "cancelled")
    if wanted == "fail":
        return Settlement(False, f"{lost} during the run; the agent's policy is fail", code)
    if crashes + 1 >= policy.max_attempts:
        return Settlement(False, f"{lost} during the run, {crashes + 1} times by now: no attempt left", code)
    if wanted == "resume" and had_effects:
        return Settlement(False, f"{lost} during the run, and beginning again would repeat what it did", code)
    return Settlement(True, f"{lost} during the run; it begins again", code)
