"""Runners that write down what they see of the conversation's history.

A message is a name and steps, separated by bars: `one|gate PATH|pull`. Steps:

    gate PATH       go on once this file is there
    say TEXT        complete a message
    look            log the history again
    pull [ATTEMPT]  take the steers, in that attempt only where one is given
    die ATTEMPT     kill the process, in that attempt
    fail            fail

Each attempt logs, as JSON, the history it begins with, and answers `answer to NAME`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

from hostler_sdk import RunContext, Runner, failed, log, message

LOOK_SECONDS = 0.01


def name_of(text: str) -> str:
    """The names in a text of one message a line."""
    return " + ".join(line.split("|")[0] for line in text.splitlines())


class Historian(Runner):
    """Steered where a step pulls."""

    capabilities = {"steering"}
    permissions = {"history": ["page", "search"]}

    async def run(self, ctx: RunContext):
        text = ctx.input.text or ""
        yield await self._seen(ctx)
        steps = [step for line in text.splitlines() for step in line.split("|")[1:]]
        for step in steps:
            word, _, rest = step.partition(" ")
            if word == "gate":
                while not Path(rest).exists():
                    await asyncio.sleep(LOOK_SECONDS)
            elif word == "say":
                yield message(rest)
            elif word == "look":
                yield await self._seen(ctx)
            elif word == "pull" and rest in ("", str(ctx.attempt)):
                await ctx.steering.pull()
            elif word == "die" and rest == str(ctx.attempt):
                os.kill(os.getpid(), signal.SIGKILL)
            elif word == "fail":
                yield failed("runner.error", "told to")
        yield message(f"answer to {name_of(text)}")

    async def _seen(self, ctx: RunContext):
        history = [f"{item.role}: {name_of(item.content)}" async for item in ctx.history.all()]
        return log(json.dumps(history))


class Deaf(Historian):
    """Takes no steers: messages queue behind it."""

    capabilities = set()


class Resumable(Historian):
    """Goes on from its journal."""

    capabilities = {"steering", "resumable"}
