"""Runners that take the steps that their input lists, and tools whose effects a ledger outside counts.

The input's text is a JSON list of steps; the first item of a step says which:

    deltas COUNT TEXT     so many deltas
    say TEXT              a completed message
    set KEY VALUE         write a state value
    get KEY               read one
    tool NAME TEXT        call a tool
    ask TITLE             put a question to a person
    wait SECONDS          wait
    pull                  take the messages that were steered into this run
    child STEPS           create a child run and wait for its end
    fail                  fail the run
    together STEPS        take several steps at once
"""

import asyncio
import json
from typing import Any

from hostler_sdk import HostError, RunContext, Runner, ToolContext, delta, message, tool
from simulation.outside import outside

FIELDS = [{"name": "size", "type": "select", "options": ["s", "xl"], "required": True}]
ANSWERED = frozenset({"set", "get", "tool", "ask", "pull", "child"})


class Plain(Runner):
    """Takes the steps."""

    capabilities = {"streaming", "tool_calling", "steering"}
    permissions = {
        "tools": ["detail", "call"],
        "runs": ["get", "list", "events", "cancel", "create"],
        "history": ["page"],
    }
    config = [{"name": "tools", "type": "tool-multi-selector", "default": ["actor.*"]}]

    async def run(self, ctx: RunContext) -> str:
        """Take the steps."""
        work = Work(ctx)
        await work.take(json.loads(ctx.input.text))
        return json.dumps(work.answers, sort_keys=True)


class Resumable(Plain):
    """Takes the steps, and after a crash goes on where it was."""

    capabilities = {"streaming", "tool_calling", "steering", "resumable"}


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
            inner = enumerate(rest[0])
            await asyncio.gather(*(self.step(f"{name}.{n}", one, more) for n, (one, *more) in inner))
            return
        try:
            answer = await getattr(self, kind)(*rest)
        except HostError as error:
            answer = {"error": error.code}
        if kind in ANSWERED:
            self.answers[name] = answer
            await self.ctx.emit(delta(f"{name}={json.dumps(answer, sort_keys=True)} "))
            outside().note(
                "answered", run=self.ctx.run_id, attempt=self.ctx.attempt, step=name, answer=answer
            )

    async def deltas(self, count: int, text: str) -> None:
        for _ in range(count):
            await self.ctx.emit(delta(text))

    async def say(self, text: str) -> None:
        await self.ctx.emit(message(text))

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def fail(self) -> None:
        raise RuntimeError("as it was told")

    async def set(self, key: str, value: Any) -> Any:
        return await self.ctx.states.set("conversation", key, value)

    async def get(self, key: str) -> Any:
        return await self.ctx.states.get("conversation", key)

    async def tool(self, name: str, text: str) -> Any:
        return await self.ctx.tools.call(f"actor.{name}", {"text": text})

    async def ask(self, title: str) -> Any:
        decision = await self.ctx.ask(title, FIELDS)
        return {"decision": decision.decision, "values": decision.values}

    async def pull(self) -> Any:
        return [item.input.text for item in await self.ctx.steering.pull()]

    async def child(self, steps: list[Any]) -> Any:
        child = await self.ctx.runs.create("child", json.dumps(steps), wait=60)
        return {"status": child.status}


async def deed(name: str, ctx: ToolContext, text: str, *, once: bool = False) -> Any:
    return await outside().effect(
        tool=name, key=ctx.effect_key, run=ctx.run_id, call=ctx.call_id, text=text, once=once
    )


@tool
async def note(text: str, *, ctx: ToolContext) -> Any:
    """Cannot be called back, nor looked up."""
    return await deed("note", ctx, text)


@tool(effect="idempotent")
async def book(text: str, *, ctx: ToolContext) -> Any:
    """Once per key."""
    return await deed("book", ctx, text, once=True)


@tool(effect="reconcilable")
async def pay(text: str, *, ctx: ToolContext) -> Any:
    """Can be looked up, and must not be called again before that."""
    return await deed("pay", ctx, text)


@pay.lookup
async def paid(effect_key: str) -> Any:
    """What came of it."""
    return await outside().look(effect_key)


@tool(effect="pure")
async def price(text: str, *, ctx: ToolContext) -> Any:
    """Has no effect, but is counted."""
    return await deed("price", ctx, text)


@tool(approval="required")
async def refund(text: str, *, ctx: ToolContext) -> Any:
    """The same as `note`, once somebody has approved it."""
    return await deed("refund", ctx, text)


@tool(client=True)
def pick(text: str) -> Any:
    """Runs in the client."""
