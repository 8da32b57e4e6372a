"""An ordered stop of the host while requests come in: each is answered, and is told whether it was taken."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.server_process import KEY, HostProcess, config_file

SECONDS = 60
pytestmark = [pytest.mark.timeout(SECONDS + 30), pytest.mark.gate("killed-hosts")]


async def test_a_request_whose_body_does_not_come_in_time_is_told_that_nothing_was_done(
    tmp_path: Path,
) -> None:
    host = HostProcess(
        tmp_path / "host",
        config_file(tmp_path / "config.yaml", plugins=[], agents=[]),
        constants={"hostler.http.server.SHUTDOWN_SECONDS": 1.0},
    )
    try:
        async with asyncio.timeout(SECONDS):
            await host.start()
            address, port = host.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(address, int(port))
            writer.write(
                f"POST /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {KEY}\r\n"
                "Expect: 100-continue\r\nContent-Type: application/json\r\n"
                "Content-Length: 100\r\n\r\n".encode()
            )
            await writer.drain()
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100"), "it waits for the body"
            assert await host.stop() == 0
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
    finally:
        host.end()
    assert head.startswith(b"HTTP/1.1 503"), head
    problem = json.loads(body)
    assert "has done nothing of this request" in problem["detail"]
    assert "Traceback" not in host.log
