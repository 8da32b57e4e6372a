"""A runner that plays the script in its input: everything that a run can show.

The input's text is a JSON list of steps, or text that it repeats. The first item of a step says which:

    delta TEXT [ID]           a piece of a message
    say TEXT [ID]             a completed message
    parts ELEMENTS            a completed message of texts, images and files
    think TEXT [ID]           a piece of the reasoning beside a message
    usage INPUT OUTPUT TEXT   a completed message with the tokens that it took
    file TEXT NAME            a file that the run made, and a message that it belongs to
    loose TEXT NAME           a file that belongs to no message
    tool NAME ARGUMENTS ID    call a tool, with reports of its start and end; a message says what came of it
    quiet NAME ARGUMENTS ID   call a tool and say nothing of it
    together STEPS            take several steps at once
    unless PATH STEPS         take steps, unless there is a file
    ask TITLE [FIELDS]        put a question to people; a message says what they answered
    seen                      a message with what the run was given: its input, and its event's data
    wait PATH                 until there is a file
    crash PATH                end the process, unless there is a file, which it makes
    fail TEXT                 raise an error
    hold                      for ever
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import msgspec

from hostler_sdk import (
    HostError,
    RunContext,
    Runner,
    artifact,
    delta,
    message,
    tool,
    tool_completed,
    tool_started,
)

FIELDS = [{"name": "size", "type": "select", "options": ["s", "xl"], "required": True}]


@tool(effect="pure")
async def price(thing: str) -> Any:
    """Tells what a thing costs."""
    if thing == "nothing":
        raise KeyError(thing)
    return {"thing": thing, "euros": len(thing)}


@tool
async def order(thing: str, count: int = 1) -> str:
    """Orders a thing; it takes approval."""
    return f"ordered {count} {thing}"


@tool
async def vanish(path: str) -> str:
    """Ends its process the first time, before it answers: nobody knows whether it did its work."""
    if not Path(path).exists():
        Path(path).touch()
        os._exit(7)
    return "vanished"


@tool
async def book(path: str) -> str:
    """Adds a line to a file; two if it is called twice."""
    with Path(path).open("a") as file:
        file.write("booked\n")
    return "booked"


@tool(effect="pure")
async def report(title: str, size: int) -> str:
    """Writes a report of so many characters, which ends with its title."""
    return "x" * size + title


@tool
async def slow(path: str) -> str:
    """Ends once there is a file."""
    await until(path)
    return "at last"


async def until(path: str) -> None:
    while not Path(path).exists():
        await asyncio.sleep(0.02)


class Player(Runner):
    """Plays a script."""

    capabilities = {"streaming", "tool_calling", "resumable"}
    permissions = {"tools": ["detail", "call"]}
    config = [{"name": "tools", "type": "tool-multi-selector", "default": ["player.*"]}]

    async def run(self, ctx: RunContext):
        """Take the steps."""
        try:
            steps = json.loads(ctx.input.text or "")
        except ValueError:
            steps = None
        if not isinstance(steps, list):
            await ctx.emit(message(f"you said: {ctx.input.text}"))
            return
        for kind, *rest in steps:
            await Play(ctx).step(kind, rest)


class Play:
    """The steps."""

    def __init__(self, ctx: RunContext) -> None:
        self.ctx = ctx

    async def step(self, kind: str, rest: list[Any]) -> None:
        if kind == "together":
            await asyncio.gather(*(self.step(inner, more) for inner, *more in rest[0]))
        else:
            await getattr(self, kind)(*rest)

    async def delta(self, text: str, message_id: str | None = None) -> None:
        await self.ctx.emit(delta(text, message_id))

    async def think(self, text: str, message_id: str | None = None) -> None:
        await self.ctx.emit(delta("", message_id, reasoning=text))

    async def say(self, text: str, message_id: str | None = None) -> None:
        await self.ctx.emit(message(text, message_id=message_id))

    async def parts(self, elements: list[Any]) -> None:
        await self.ctx.emit(message(elements))

    async def usage(self, given: int, made: int, text: str) -> None:
        await self.ctx.emit(message(text, usage={"input_tokens": given, "output_tokens": made}))

    async def file(self, text: str, name: str) -> None:
        stored = await self.ctx.artifacts.upload(text.encode(), name=name, mime_type="text/plain")
        await self.ctx.emit(message(f"see {name}", [{"artifact_id": stored, "name": name}]))

    async def loose(self, text: str, name: str) -> None:
        await self.ctx.emit(artifact("file", text, name, "text/plain"))

    async def tool(self, name: str, arguments: dict[str, Any], call_id: str) -> None:
        await self.ctx.emit(tool_started(call_id, name, arguments))
        try:
            result = await self.ctx.tools.call(name, arguments, call_id)
        except HostError as error:
            await self.ctx.emit(tool_completed(call_id, name, error=f"{error.code}: {error.message}"))
            await self.ctx.emit(message(f"{name} failed: {error.message}"))
            return
        await self.ctx.emit(tool_completed(call_id, name, result=result))
        await self.ctx.emit(message(f"{name}: {json.dumps(result, ensure_ascii=False)}"))

    async def quiet(self, name: str, arguments: dict[str, Any], call_id: str) -> None:
        await self.ctx.tools.call(name, arguments, call_id)

    async def ask(self, title: str, fields: list[Any] = FIELDS) -> None:
        decision = await self.ctx.ask(title, fields, description="It is cold.")
        await self.ctx.emit(message(f"{decision.decision}: {json.dumps(decision.values)}"))

    async def unless(self, path: str, steps: list[Any]) -> None:
        if not Path(path).exists():
            for kind, *rest in steps:
                await self.step(kind, rest)

    async def seen(self) -> None:
        given = {"input": msgspec.to_builtins(self.ctx.input), "data": self.ctx.event.data}
        await self.ctx.emit(message(json.dumps(given, ensure_ascii=False)))

    async def wait(self, path: str) -> None:
        await until(path)

    async def crash(self, path: str) -> None:
        if not Path(path).exists():
            Path(path).touch()
            os._exit(7)

    async def fail(self, text: str) -> None:
        raise RuntimeError(text)

    async def hold(self) -> None:
        await asyncio.Event().wait()
