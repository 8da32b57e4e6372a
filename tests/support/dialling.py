"""Plugin processes that connect to a host, instead of being started by it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.http_host import Served


@asynccontextmanager
async def dialled(
    served: Served, *command: str, **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of Python that connects to the host; it is killed at the end. `command` lacks the address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(*command, "--connect", served.url.replace("http://", "ws://") + "/v1/plugins/connect"),
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
