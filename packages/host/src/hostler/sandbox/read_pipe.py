"""Reading from a pipe with asyncio, without the buffer of 256 KiB that it allocates for each read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import IO, Any, TypeVar, cast

_P = TypeVar("_P", bound=asyncio.BaseProtocol)

READ_BYTES = 64 * 1024
"""What a pipe of Linux holds (`pipe(7)`): no read returns more."""


async def connect_read_pipe(factory: Callable[[], _P], pipe: IO[Any]) -> tuple[asyncio.ReadTransport, _P]:
    """Connect a protocol to the reading end of a pipe, like the function of the event loop.

    asyncio allocates `max_size` bytes for each read, however few bytes arrive. Its default of 256 KiB is
    above the size from which malloc maps memory for each allocation and unmaps it afterwards, which costs
    more than the read.
    """
    transport, protocol = await asyncio.get_running_loop().connect_read_pipe(factory, pipe)
    cast("Any", transport).max_size = READ_BYTES
    return transport, protocol
