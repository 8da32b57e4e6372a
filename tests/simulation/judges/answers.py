"""What a workload found wrong itself: an answer that contradicts another, a backup that lacks something."""

from __future__ import annotations

from simulation.life import Life


def judge(life: Life) -> list[str]:
    """All of it."""
    return [data["text"] for _, kind, data in life.outside.notes if kind == "wrong"]
