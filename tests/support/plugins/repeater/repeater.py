"""A resumable runner of the SDK that makes many calls, dies among them, and says how many had to wait.

The input is JSON, the keywords of `Repeater.work`. Its last message is JSON: the answers, and the
number of calls of this attempt that were sent with an id.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from hostler_protocol.link import Link
from hostler_sdk import RunContext, Runner, delta, tool

_requests: list[str] = []
_request = Link.request


def _counted(link: Link, method: str, params: Any) -> Any:
    _requests.append(method)
    return _request(link, method, params)


Link.request = _counted  # type: ignore[method-assign]


@tool
def touch(path: str, number: int) -> int:
    """Write a number down."""
    with Path(path).open("a") as file:
        file.write(f"{number}\n")
    return number


class Repeater(Runner):
    """Changes state and touches, one after the other."""

    capabilities = {"tool_calling", "resumable"}
    permissions = {"tools": ["detail", "call"]}
    config = [{"name": "tools", "type": "tool-multi-selector", "default": ["repeater.*"]}]

    async def run(self, ctx: RunContext) -> Any:
        """Work, and say what came of it."""
        _requests.clear()
        self.answers: list[Any] = []
        async for result in self.work(ctx, **json.loads(ctx.input.text or "{}")):
            yield result
        yield json_message({"answers": self.answers, "requests": len(_requests)})

    async def work(
        self,
        ctx: RunContext,
        calls: int = 10,
        size: int = 0,
        touches: str = "",
        die: dict[str, int] | None = None,
        change: dict[str, int] | None = None,
        together: int | None = None,
        say_every: int = 0,
    ) -> Any:
        """Make calls. `die`, `change`: in which attempt the process dies, or makes another call, at which."""
        for number in range(calls):
            if (die or {}).get(str(ctx.attempt)) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            value: Any = "x" * size or number
            if (change or {}).get(str(ctx.attempt)) == number:
                value = "changed"
            if touches and number % 3 == 0:
                self.answers.append(
                    await ctx.tools.call("repeater.touch", {"path": touches, "number": number})
                )
            elif number == together:
                both = [ctx.states.set("conversation", f"k{branch}", branch) for branch in range(3)]
                self.answers += await asyncio.gather(*both)
            else:
                self.answers.append(await ctx.states.set("conversation", "k", value))
            if say_every and number % say_every == 0:
                yield delta(f"{number} ")


def json_message(value: Any) -> Any:
    """Say a value as JSON."""
    from hostler_sdk import message

    return message(json.dumps(value))
