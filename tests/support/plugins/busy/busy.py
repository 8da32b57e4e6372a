"""A runner that does some of everything, and notes in a file what the host told it is done.

Its input is JSON: `turns`, `deltas` (a turn), `acknowledged` (a file: one line per state that the host said
it has).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from hostler_sdk import RunContext, Runner, artifact, delta, message, state_updated


class Busy(Runner):
    """Busy."""

    capabilities = {"streaming"}

    async def run(self, ctx: RunContext):
        plan = json.loads(ctx.input.text)
        name = ctx.event.event_id
        for turn in range(plan["turns"]):
            for number in range(plan["deltas"]):
                yield delta(f"{name} {turn}.{number} ")
            yield state_updated("conversation", f"said.{name}.{turn}", turn)
            version = await ctx.states.set("conversation", f"called.{name}.{turn}", turn)
            _note(plan["acknowledged"], f"called.{name}.{turn} {version}")
            yield artifact("file", f"{name} {turn}", f"{name}.{turn}.txt", metadata={"turn": turn})
            yield message(f"{name} {turn}")


def _note(path: str, line: str) -> None:
    """One write of one line: whole, or not at all."""
    file = os.open(Path(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)
