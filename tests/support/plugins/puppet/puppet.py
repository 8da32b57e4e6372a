"""A runner that does as its input says: `say N`, `remember K V`, `recall K`, `make TEXT`, `hold`, `fail`,
`strings PATH`.

`strings`: it connects to a Unix socket and emits one delta per line that comes, until the socket is closed.
"""

from __future__ import annotations

import asyncio

from hostler_sdk import RunContext, Runner, artifact, delta, message, state_updated


class Puppet(Runner):
    """Does as it is told."""

    capabilities = {"streaming"}
    config = [{"name": "suffix", "type": "string", "default": "."}]

    async def run(self, ctx: RunContext):
        command, _, rest = (ctx.input.text or "").partition(" ")
        match command:
            case "say":
                for number in range(int(rest)):
                    yield delta(f"{number} ")
            case "remember":
                key, _, value = rest.partition(" ")
                yield state_updated("conversation", key, value)
            case "recall":
                await ctx.states.get("conversation", rest)
            case "make":
                yield artifact("file", rest, "made.txt", "text/plain")
            case "hold":
                yield delta("holding")
                await asyncio.Event().wait()
            case "fail":
                raise RuntimeError(rest)
            case "strings":
                reader, writer = await asyncio.open_unix_connection(rest)
                while line := await reader.readline():
                    yield delta(line.decode())
                writer.close()
        yield message(f"done: {ctx.input.text}{ctx.config['suffix']}")
