"""Runners that take the steps that their input lists, and tools whose effects a ledger outside counts.

The input's text is a JSON list of steps; the first item of a step says which:

    deltas COUNT TEXT     so many deltas
    say TEXT              a completed message
    set KEY VALUE         write a state value
    get KEY               read one
    tool NAME TEXT        call a tool
    shop NAME TEXT        call an operation of the shop
    desk NAME TEXT        the same of the MCP server
    ask TITLE [SECONDS]   put a question to a person, who has so long
    wait SECONDS          wait
    pull                  take the messages that were steered into this run
    listen COUNT SECONDS  do so several times, with a wait before each
    child STEPS           create a child run and wait for its end
    leave STEPS           create a child run, and go on
    kin STEPS             create a child run of the purse's own, and wait for its end
    overreach BELOW       try to create runs that must not be created; BELOW: from a child too
    stubborn SECONDS      wait, and ignore a cancellation meanwhile
    fail                  fail the run
    fail_retryably        fail the run, so that the same event may succeed another time
    hold CALLS            pause the run itself (of the runner `keeper`); CALLS: lists of kind and text
    remind NAME SECONDS STEPS
                          have steps taken in this conversation after so long
    model TEXT [SECONDS]  ask a model; after so long give up
    stream TEXT [SECONDS] the same, piece by piece
    together STEPS        take several steps at once
"""

import asyncio
import json
from typing import Any

from hostler.simulation.loop import current_process
from hostler_sdk import (
    HostError,
    Result,
    RunContext,
    Runner,
    RuntimeFailure,
    ToolContext,
    delta,
    failed,
    message,
    paused,
    tool,
)
from simulation.outside import ServiceError, outside

FIELDS = [{"name": "size", "type": "select", "options": ["s", "xl"], "required": True}]
PONDER_SECONDS = 0.3
"""In which a runner that is refused something says nothing."""
ANSWERED = frozenset(
    {
        "set",
        "get",
        "tool",
        "ask",
        "pull",
        "listen",
        "child",
        "leave",
        "kin",
        "overreach",
        "model",
        "stream",
        "shop",
        "desk",
        "remind",
    }
)
GAVE_UP = {"error": "gave up"}


class Plain(Runner):
    """Takes the steps."""

    capabilities = {"streaming", "tool_calling", "steering"}
    permissions = {
        "models": ["invoke", "stream"],
        "tools": ["detail", "call"],
        "runs": ["get", "list", "events", "cancel", "create"],
        "history": ["page"],
        "schedules": ["create"],
    }
    config = [
        {"name": "tools", "type": "tool-multi-selector", "default": ["actor.*"]},
        {"name": "model", "type": "llm-model-selector"},
    ]

    async def run(self, ctx: RunContext) -> str | Result:
        """Take the steps."""
        work = Work(ctx)
        await work.take(steps_of(ctx))
        return json.dumps(work.answers, sort_keys=True)


class Resumable(Plain):
    """Takes the steps, and after a crash goes on where it was."""

    capabilities = {"streaming", "tool_calling", "steering", "resumable"}


class Holder(Plain):
    """Takes the steps; it has a secret, and says which."""

    config = [*Plain.config, {"name": "key", "type": "secret"}]

    async def run(self, ctx: RunContext) -> str | Result:
        """Take the steps."""
        outside().note("has secret", run=ctx.run_id, attempt=ctx.attempt, secret=ctx.config["key"])
        return await super().run(ctx)


class Keeper(Plain):
    """Takes the steps; it can pause the run itself, and then goes on from a state of its own."""

    capabilities = {"streaming", "tool_calling", "steering", "continuation"}

    async def run(self, ctx: RunContext) -> str | Result:
        """Take the steps after the last pause."""
        work, first = Work(ctx), 0
        if ctx.continuation is not None:
            state = ctx.continuation.state
            outside().note("continued", run=ctx.run_id, state=state)
            first, work.answers = state["next"], dict(state["answers"])
            decisions = {one.call_id: one.decision for one in ctx.continuation.decisions}
            await work.answered(str(first - 1), decisions)
        for number, (kind, *rest) in enumerate(steps_of(ctx)):
            if number < first:
                continue
            if kind == "hold":
                state = {"next": number + 1, "answers": dict(work.answers)}
                outside().note("kept", run=ctx.run_id, state=state)
                return paused([pending(*call) for call in rest[0]], state)
            await work.step(str(number), kind, rest)
        return json.dumps(work.answers, sort_keys=True)


def steps_of(ctx: RunContext) -> list[Any]:
    """Return the steps of the input; messages that became one turn are taken one after the other."""
    return [step for line in (ctx.input.text or "[]").splitlines() for step in json.loads(line)]


def pending(kind: str, text: str) -> dict[str, Any]:
    """Return a call that waits for a person."""
    if kind == "ask":
        question = {"tool_name": "ask", "arguments": {}, "kind": "question", "schema": FIELDS}
        return {**question, "title": text, "call_id": text}
    call_kind = "client_tool" if kind == "pick" else "approval"
    call = {"tool_name": f"actor.{kind}", "arguments": {"text": text}, "kind": call_kind}
    return {**call, "title": text, "call_id": text}


class Work:
    """One attempt of one run."""

    kinds = ANSWERED
    """Steps that have an answer."""

    def __init__(self, ctx: RunContext) -> None:
        self.ctx = ctx
        self.answers: dict[str, Any] = {}
        if (process := current_process()) is not None:
            outside().note("works", run=ctx.run_id, attempt=ctx.attempt, process=process.name)

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
            await asyncio.sleep(PONDER_SECONDS)
        if kind in self.kinds:
            await self.answered(name, answer)

    async def answered(self, name: str, answer: Any) -> None:
        """Say what a step was answered."""
        self.answers[name] = answer
        await self.ctx.emit(delta(f"{name}={json.dumps(answer, sort_keys=True)} "))
        outside().note("answered", run=self.ctx.run_id, attempt=self.ctx.attempt, step=name, answer=answer)

    async def deltas(self, count: int, text: str) -> None:
        for _ in range(count):
            await self.ctx.emit(delta(text))

    async def say(self, text: str) -> None:
        await self.ctx.emit(message(text))

    async def hold(self, calls: list[Any]) -> None:
        pass  # only a keeper pauses its run itself

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def stubborn(self, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                outside().note("ignored a cancellation", run=self.ctx.run_id)

    async def fail(self) -> None:
        raise RuntimeError("as it was told")

    async def fail_retryably(self) -> None:
        await self.ctx.emit(failed("actor.busy", "as it was told", retryable=True))

    async def set(self, key: str, value: Any) -> Any:
        return await self.ctx.states.set("conversation", key, value)

    async def get(self, key: str) -> Any:
        return await self.ctx.states.get("conversation", key)

    async def tool(self, name: str, text: str) -> Any:
        return await self.ctx.tools.call(f"actor.{name}", {"text": text})

    async def shop(self, name: str, text: str) -> Any:
        said = {"text": f"{self.ctx.run_id} {text}"}
        return await self.ctx.tools.call(f"shop.{name}", said if name == "see" else {"body": said})

    async def desk(self, name: str, text: str) -> Any:
        return await self.ctx.tools.call(f"desk.{name}", {"text": f"{self.ctx.run_id} {text}"})

    async def ask(self, title: str, seconds: float | None = None) -> Any:
        decision = await self.ctx.ask(title, FIELDS, expires_in=seconds)
        return {"decision": decision.decision, "values": decision.values}

    async def pull(self) -> Any:
        return [item.input.text for item in await self.ctx.steering.pull()]

    async def listen(self, count: int, seconds: float) -> Any:
        heard: list[Any] = []
        for _ in range(count):
            await asyncio.sleep(seconds)
            heard += await self.pull()
        return heard

    async def leave(self, steps: list[Any]) -> Any:
        child = await self.ctx.runs.create("child", json.dumps(steps))
        return {"child": child.run_id}

    async def child(self, steps: list[Any]) -> Any:
        child = await self.ctx.runs.create("child", json.dumps(steps), wait=60)
        return {"status": child.status}

    async def kin(self, steps: list[Any]) -> Any:
        child = await self.ctx.runs.create("purse.kin", json.dumps(steps), wait=60)
        return {"status": child.status}

    async def overreach(self, below: bool) -> Any:
        tries: dict[str, dict[str, Any]] = {
            "agent": {"agent": "vault", "input": "[]"},
            "actor": {"agent": "climber.helper", "input": "[]", "actor": {"actor_id": "somebody else"}},
            "conversation": {"agent": "climber.helper", "input": "[]", "conversation_id": "of others"},
            "file": {
                "agent": "climber.helper",
                "input": {"text": "[]", "attachments": [{"artifact_id": "?"}]},
            },
        }
        answers: dict[str, Any] = {}
        for name, given in tries.items():
            try:
                run = await self.ctx.runs.create(**given)
            except HostError as error:
                answers[name] = error.code
            else:
                self.wrong(f"it created run {run.run_id} with a foreign {name}")
        if below:
            child = await self.ctx.runs.create("climber.helper", json.dumps([["overreach", False]]), wait=60)
            answers["below"] = child.status
        return answers

    async def remind(self, name: str, seconds: float, steps: list[Any]) -> Any:
        made = await self.ctx.schedules.create(json.dumps(steps), delay=seconds, name=name)
        return {"reminds": made.name}

    def wrong(self, text: str) -> None:
        outside().note("wrong", text=f"run {self.ctx.run_id}: {text}")

    async def model(self, text: str, seconds: float | None = None) -> Any:
        try:
            async with asyncio.timeout(seconds):
                reply = await self.ctx.models.invoke(self.ctx.config["model"], self.question(text))
        except TimeoutError:
            return GAVE_UP
        return reply.message.content

    async def stream(self, text: str, seconds: float | None = None) -> Any:
        stream, pieces = self.ctx.models.stream(self.ctx.config["model"], self.question(text)), ""
        try:
            async with asyncio.timeout(seconds):
                async for chunk in stream:
                    pieces += str(chunk.delta.content)
        except TimeoutError:
            return GAVE_UP
        answer = None if stream.reply is None else stream.reply.message.content
        return answer if answer == pieces else {"pieces": pieces, "answer": answer}

    def question(self, text: str) -> list[dict[str, Any]]:
        """Return the messages of a question that is asked once in a life."""
        return [{"role": "user", "content": f"{self.ctx.run_id} {text}"}]


async def deed(name: str, ctx: ToolContext, text: str, *, once: bool = False) -> Any:
    try:
        return await outside().effect(
            tool=name, key=ctx.effect_key, run=ctx.run_id, call=ctx.call_id, text=text, once=once
        )
    except ServiceError as error:
        raise RuntimeFailure(str(error)) from None


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
    try:
        return await outside().look(effect_key)
    except ServiceError as error:
        raise RuntimeFailure(str(error)) from None


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
