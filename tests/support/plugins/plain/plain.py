"""Runners whose runs are recorded: ids of their own, calls at once, and runs that do not end well."""

import asyncio
import os
import uuid

from hostler_sdk import HostError, Runner, artifact, delta, log, message, state_updated, tool_started


class Plain(Runner):
    """Plain"""

    async def run(self, ctx):
        n = await ctx.states.get("conversation", "n", 0)
        await ctx.states.set("conversation", "n", n + 1)
        return f"{ctx.input.text}, number {n + 1}"


class Odd(Runner):
    """Sends every kind of result, with random ids."""

    async def run(self, ctx):
        yield log("begun")
        yield delta("pie", message_id=str(uuid.uuid4()))
        yield tool_started(str(uuid.uuid4()), "look", {})
        made = await ctx.artifacts.upload(b"some bytes", name="a.txt")
        yield artifact("file", content=b"more", name="b.txt")
        yield state_updated("conversation", "k", {"a": [1, None]})
        try:
            await ctx.history.page(conversation_id="somebody else's")
        except HostError as error:
            yield log(type(error).__name__)
        yield message("done " + str(bool(made)))


class Parallel(Runner):
    """Makes several calls at once."""

    permissions = {"history": ["page"]}

    async def run(self, ctx):
        order = []

        async def ask(n):
            await ctx.states.set("conversation", f"k{n}", n)
            order.append(n)

        await asyncio.gather(*(ask(n) for n in range(8)))
        yield message(repr(sorted(order)))


class Impatient(Runner):
    """Gives up a model after two chunks, and makes another call only then."""

    permissions = {"models": ["stream"]}
    config = [{"name": "model", "type": "model-fallback-selector"}]

    async def run(self, ctx):
        heard = []
        asked = asyncio.Event()

        async def listen():
            messages = [{"role": "user", "content": ctx.input.text}]
            pieces = aiter(ctx.models.stream(ctx.config["model"]["primary"], messages))
            heard.extend([(await anext(pieces)).delta.content for _ in range(2)])
            asked.set()
            try:
                async with asyncio.timeout(0.05):
                    heard.append(await anext(pieces, "the end"))
            except TimeoutError:
                heard.append("nothing")

        listening = asyncio.create_task(listen())
        await asked.wait()
        await ctx.states.get("conversation", "k")
        await listening
        await ctx.states.set("conversation", "k", 1)
        yield message(" ".join(map(str, heard)))


class Waits(Runner):
    """Waits"""

    async def run(self, ctx):
        yield message("waiting")
        await ctx.states.get("conversation", "k")
        await asyncio.Event().wait()


class Crashes(Runner):
    """Crashes"""

    async def run(self, ctx):
        yield message("going")
        await ctx.states.get("conversation", "k")
        os.kill(os.getpid(), 9)
