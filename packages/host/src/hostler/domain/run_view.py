"""A run as `/v1` shows it."""

from __future__ import annotations

from typing import Literal

from hostler_protocol._base import Strict
from hostler_protocol.runs import RunRecord

WaitKind = Literal[
    "approval", "question", "client_tool", "in_doubt", "budget", "review", "run", "turn", "time", "worker"
]


class RunWait(Strict):
    """One thing that a run waits for now.

    People: `approval`, `question`, `client_tool`, `in_doubt`, `budget`, and `review` of what went wrong as it
    was continued; `until`: when the first of it expires. `run`: the run `run_id`, which it started.
    `turn`: it is queued behind the run `run_id`. `time`: it starts `until` then at the earliest. `worker`: it
    lacks a remote worker, as `text` says. Times in UTC epoch seconds.
    """

    kind: WaitKind
    run_id: str | None = None
    until: float | None = None
    text: str | None = None


class RunView(RunRecord):
    """A run. `waiting`: it waits for people now, be it parked (`paused`) or still held (`running`).

    `waits_for`: what a queued run lacks of remote workers, like "a worker with label gpu"; null: nothing.
    `waits`: that, and all else that it waits for; what people are asked is in `/v1/pauses`.
    """

    waiting: bool = False
    waits_for: str | None = None
    waits: list[RunWait] = []
