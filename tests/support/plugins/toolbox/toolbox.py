"""Tools that behave in every way a tool can; `hold` waits until `release` says so. There is no runner."""

import asyncio
import os
import signal
import sys
import threading
from typing import Any

from hostler_sdk import Conflict, Denied, ToolContext, tool

held_now: dict[str, asyncio.Event] = {}
opened: dict[str, threading.Event] = {}
kept: dict[str, Any] = {}


def page(effect_key: str) -> str:
    folder = os.environ.get("TOOLBOX_FOLDER", os.path.dirname(__file__))
    return os.path.join(folder, f"kept-{effect_key}")


def began(name: str) -> asyncio.Event:
    return held_now.setdefault(name, asyncio.Event())


def gate(name: str) -> threading.Event:
    return opened.setdefault(name, threading.Event())


async def until_open(name: str) -> None:
    while not gate(name).is_set():
        await asyncio.sleep(0.005)


@tool(effect="pure")
async def echo(value: Any = None) -> Any:
    """Says it again."""
    return value


@tool(effect="pure")
async def whose(*, ctx: ToolContext) -> dict[str, Any]:
    """Tells its context."""
    actor = None if ctx.actor is None else ctx.actor.actor_id
    return {
        "run_id": ctx.run_id,
        "call_id": ctx.call_id,
        "effect_key": ctx.effect_key,
        "workspace_id": ctx.workspace_id,
        "actor": actor,
        "deadline": ctx.deadline,
    }


@tool
async def hold(name: str) -> str:
    """Waits until it is released; `held` answers once it waits."""
    began(name).set()
    try:
        await until_open(name)
    except asyncio.CancelledError:
        kept[name] = "cancelled"
        raise
    return name


@tool
async def hold_stubbornly(name: str) -> str:
    """The same, and ignores that it was cancelled."""
    began(name).set()
    while not gate(name).is_set():
        try:
            await until_open(name)
        except asyncio.CancelledError:
            kept[name] = "ignored"
    return name


@tool
def hold_in_thread(name: str) -> str:
    """The same, as plain code that blocks."""
    loop_began[name]()
    gate(name).wait()
    return name


loop_began: dict[str, Any] = {}


@tool(effect="pure")
async def held(name: str) -> Any:
    """Answers once that call waits; what was kept of it, if it ended."""
    loop = asyncio.get_running_loop()
    loop_began.setdefault(name, lambda: loop.call_soon_threadsafe(began(name).set))
    await began(name).wait()
    return kept.get(name)


@tool
async def release(name: str) -> None:
    """Lets those that wait go on."""
    gate(name).set()


@tool
async def fail(text: str) -> None:
    """Raises."""
    raise KeyError(text)


@tool
async def refuse(text: str) -> None:
    """Raises an error of the SDK."""
    raise Conflict(text)


@tool
async def pretend_denied() -> None:
    """Claims that a person refused."""
    raise Denied("a person said no")


@tool
async def not_json(kind: str = "object") -> Any:
    """Gives what JSON cannot carry."""
    return {"of": {"object": object(), "nan": float("nan"), "set": {1}, "half": "\ud800"}[kind]}


@tool(effect="pure")
async def repeated(value: Any, times: int) -> list[Any]:
    """Says it so many times."""
    return [value] * times


@tool
async def large(size: int) -> str:
    """Gives so many characters."""
    return "x" * size


@tool
async def chat() -> str:
    """Prints where the wire once was."""
    print("stray")
    sys.__stdout__.write("more\n")
    os.write(1, b"and more\n")
    return "said"


@tool
async def die() -> None:
    """Ends the process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


@tool
def quit_itself() -> None:
    """Tries to leave politely."""
    sys.exit(3)


@tool(effect="reconcilable")
async def keep(value: Any, *, ctx: ToolContext) -> Any:
    """Remembers the value under the effect key; the value "die" ends the process before it answers."""
    with open(page(ctx.effect_key), "a") as file:
        file.write(f"{value}\n")
    if value == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return value


@keep.lookup
def kept_value(effect_key: str) -> Any:
    """What was kept under the key."""
    try:
        with open(page(effect_key)) as file:
            return file.read().split()[-1]
    except FileNotFoundError:
        return None


@tool(client=True, approval="required")
def ask_client(what: str) -> str:
    """Runs in the client."""
