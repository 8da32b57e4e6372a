"""The bench's runner: `talk` (20 results), `flood N` (N deltas), `idle` (waits until told to stop)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from hostler_sdk import RunContext, Runner, delta, message, state_updated

WORDS = "The cheapest one leaves "
ANSWER = "The cheapest one leaves at 7:40 and takes one cabin bag; " * 8


class Worker(Runner):
    """Does what is measured."""

    capabilities = {"streaming"}

    async def run(self, ctx: RunContext) -> AsyncIterator[Any]:
        """Do one of the three."""
        command, _, rest = (ctx.input.text or "").partition(" ")
        if command == "flood":
            for _ in range(int(rest)):
                yield delta(WORDS)
        elif command == "idle":
            await asyncio.Event().wait()
        else:
            for _ in range(17):
                yield delta(WORDS)
            yield state_updated("conversation", "step", 1)
            yield message(f"{ctx.event.event_id} {ANSWER}")
