"""A runner that emits as many deltas as it is told to, as fast as it can.

Its input names a Unix socket. A number comes from there; when so many deltas are emitted it answers `ok`. It
ends when the socket is closed.
"""

from __future__ import annotations

import asyncio
import contextlib

from hostler_sdk import RunContext, Runner, delta, message


class Flood(Runner):
    """Floods."""

    capabilities = {"streaming"}

    async def run(self, ctx: RunContext):
        reader, writer = await asyncio.open_unix_connection(ctx.input.text)
        emitted = 0
        with contextlib.closing(writer):  # also when the run is stopped: then the test sees its end
            while line := await reader.readline():
                for _ in range(int(line)):
                    emitted += 1
                    yield delta(f"{emitted} ")
                writer.write(b"ok\n")
        yield message(f"{emitted}")
