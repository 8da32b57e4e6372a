"""Defects that tests put into a child before its life, for what finds them and cuts them down."""

from __future__ import annotations

import os
import signal

from simulation import catalog
from simulation.life import Life


def no_power_cut_after_a_message() -> None:
    """Let a judge refuse lives in which a power cut comes after a message to a0."""

    def judge(life: Life) -> list[str]:
        asked = False
        for _, kind, data in life.outside.notes:
            if kind != "action":
                continue
            asked = asked or data["data"].get("agent") == "a0"
            if asked and data["what"] == "power cut":
                return ["a power cut came after a message to a0"]
        return []

    catalog.JUDGES[:] = [judge]


def hang() -> None:
    """Let the life never end."""

    def judge(life: Life) -> list[str]:
        while True:
            pass

    catalog.JUDGES[:] = [judge]


def die() -> None:
    """End the child before its life."""
    raise ValueError("as it was told")


def kill_itself() -> None:
    """Kill the child after its life, with all of its files there."""

    def judge(life: Life) -> list[str]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []

    catalog.JUDGES[:] = [judge]
