"""A runner that takes the steps that its input lists, and tells a counter outside what it was answered.

The input's text is a JSON list of steps; the first item of a step says which:

    deltas COUNT TEXT     so many deltas
    say TEXT              a completed message
    model TEXT            ask the model, and wait for its whole answer
    stream TEXT           ask the model, and pass on its answer piece by piece
    set KEY VALUE         write a state value
    get KEY               read one
    tool NAME TEXT        call a tool; a delta says what came of it
    ask TITLE             put a question to a person
    together STEPS        take several steps at once

At the end it says what it was answered at each step, as JSON. It stands at the points `asking` before each
tool call, `answered` after each answer, and `streaming` in the middle of a stream.
"""

import asyncio
import json
import os
from typing import Any

from hostler_sdk import HostError, RunContext, Runner, delta, message

FIELDS = [{"name": "size", "type": "select", "options": ["s", "xl"], "required": True}]
WITH_ANSWERS = frozenset({"model", "stream", "set", "get", "tool", "ask"})


class Doer(Runner):
    """Does what is listed."""

    capabilities = {"streaming", "tool_calling", "resumable"}
    permissions = {"models": ["invoke", "stream"], "tools": ["detail", "call"]}
    config = [
        {"name": "model", "type": "model-fallback-selector"},
        {"name": "tools", "type": "tool-multi-selector", "default": ["effects.*"]},
    ]

    async def run(self, ctx: RunContext):
        """Take the steps."""
        work = Work(ctx)
        await work.take(json.loads(ctx.input.text))
        return json.dumps(work.answers, sort_keys=True)


class Work:
    """One attempt of one run."""

    def __init__(self, ctx: RunContext) -> None:
        self.ctx = ctx
        self.answers: dict[str, Any] = {}

    async def take(self, steps: list[Any], prefix: str = "") -> None:
        """Take steps one after the other."""
        for number, (kind, *rest) in enumerate(steps):
            await self.step(f"{prefix}{number}", kind, rest)

    async def step(self, name: str, kind: str, rest: list[Any]) -> None:
        """Take one."""
        if kind == "together":
            await asyncio.gather(
                *(self.step(f"{name}.{n}", inner, more) for n, (inner, *more) in enumerate(rest[0]))
            )
            return
        try:
            answer = await getattr(self, kind)(*rest)
        except HostError as error:
            answer = {"error": error.code}
        if kind not in WITH_ANSWERS:
            return
        self.answers[name] = answer
        await self.ctx.emit(delta(f"{name}={json.dumps(answer)} "))  # before anything that takes its time
        run = {"run": self.ctx.run_id}
        await tell(op="say", attempt=self.ctx.attempt, step=name, answer=answer, **run)
        await tell(op="at", point="answered", **run)

    async def deltas(self, count: int, text: str) -> None:
        for _ in range(count):
            await self.ctx.emit(delta(text))

    async def say(self, text: str) -> None:
        await self.ctx.emit(message(text))

    async def model(self, text: str) -> Any:
        messages = [{"role": "user", "content": text}]
        return (await self.ctx.models.invoke("m", messages)).message.content

    async def stream(self, text: str) -> Any:
        messages = [{"role": "user", "content": text}]
        said: list[str] = []
        async for chunk in self.ctx.models.stream("m", messages):
            if chunk.delta.content:
                said.append(str(chunk.delta.content))
                await self.ctx.emit(delta(said[-1]))
                if len(said) == 2:
                    await tell(op="at", point="streaming", run=self.ctx.run_id)
        return "".join(said)

    async def set(self, key: str, value: Any) -> Any:
        return await self.ctx.states.set("conversation", key, value)

    async def get(self, key: str) -> Any:
        return await self.ctx.states.get("conversation", key)

    async def tool(self, name: str, text: str) -> Any:
        await tell(op="at", point="asking", run=self.ctx.run_id)
        return await self.ctx.tools.call(f"effects.{name}", {"text": text})

    async def ask(self, title: str) -> Any:
        decision = await self.ctx.ask(title, FIELDS)
        return {"decision": decision.decision, "values": decision.values}


async def tell(**said: Any) -> None:
    """Say something to the counter; waits for its answer."""
    reader, writer = await asyncio.open_unix_connection(os.environ["HOSTLER_PLUGIN_COUNTER"])
    try:
        writer.write(json.dumps(said).encode() + b"\n")
        await reader.readline()
    finally:
        writer.close()
