"""Runners that are steered: each says, as JSON, which messages it heard, in order.

Between its turns a runner does nothing for a moment of its own, and how often it pulls depends on the text:
so its end may come at any time, with messages before, between and after its last pull. With `hold` it goes on
until it is cancelled; with `wait PATH` it pulls once, everything, when that file is there. `Reader` repeats
what it pulls, part by part.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

from hostler_sdk import RunContext, Runner, message

LOOK_SECONDS = 0.01


class Listener(Runner):
    """Pulls, and ends when it likes."""

    capabilities = {"steering"}

    async def run(self, ctx: RunContext):
        text = ctx.input.text or ""
        heard = [text]
        chance = random.Random(text)
        if text.startswith("hold"):
            await asyncio.Event().wait()
        if text.startswith("wait "):
            path = Path(text.split()[1])
            while not path.exists():
                await asyncio.sleep(LOOK_SECONDS)
        for _ in range(chance.randrange(4) if not text.startswith("wait ") else 1):
            await asyncio.sleep(chance.random() * 0.01)
            if text.startswith("wait "):  # its path is another one each time: nothing may hang on that
                items = await ctx.steering.pull()
            elif chance.random() < 0.3:
                items = await ctx.steering.pull("one-at-a-time")
            else:
                items = await ctx.steering.pull(limit=chance.choice([None, 2, 50]))
            heard += [item.input.text for item in items]
        await asyncio.sleep(chance.random() * 0.005)
        yield message(json.dumps(heard))


class Resumable(Listener):
    """The same, to be gone on with after a crash."""

    capabilities = {"steering", "resumable"}


class Equipped(Listener):
    """The same, with the tools that its callers bring."""

    permissions = {"tools": ["detail", "call"]}


class Deaf(Listener):
    """Says that it pulls, and does not."""

    async def run(self, ctx: RunContext):
        await asyncio.sleep(0.02)
        yield message(json.dumps([ctx.input.text]))


class Reader(Runner):
    """Waits for the file that its message names, pulls, and says what each item holds."""

    capabilities = {"steering"}

    async def run(self, ctx: RunContext):
        while not Path(ctx.input.text).exists():
            await asyncio.sleep(LOOK_SECONDS)
        told = [
            {
                "text": item.input.text,
                "words": item.input.text.split(),
                "contents": [type(element).__name__ for element in item.input.contents],
                "event": [item.event.event_id, item.event.event_type],
                "actor": item.actor and item.actor.actor_id,
                "conversation": item.conversation and item.conversation.conversation_id,
                "subject": item.subject and item.subject.subject_id,
            }
            for item in await ctx.steering.pull()
        ]
        yield message(json.dumps(told))
