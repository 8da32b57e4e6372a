"""Scripted coding agents as real processes, forked from one that has imported the protocol's SDK.

Dozens of tests start them, and most of what that costs is this import. The fork has the folder, the
environment, the arguments, the pipes and the group that the runner gives to a process. Whatever else the
runner starts is executed as ever, as are the agents of sandboxes (tests/journeys/test_acp_journey.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import random
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from support.acp import AGENT
from support.forking import CAN_FORK, OwnSource, PipedFork, end_with, fork_piped, take_on, take_orders

GIVEN = {"cwd", "env", "stdin", "stdout", "stderr", "process_group", "limit"}
"""What the runner gives to a process, and a fork has."""


class _Agent(PipedFork):
    """An agent as the runner has it, which closes all pipes at once by the process's transport."""

    @property
    def _transport(self) -> _Agent:
        return self

    def close(self) -> None:
        """Close the pipes, whoever holds their other ends."""
        self.stdin.close()
        for reader in (self.stdout, self.stderr):
            getattr(reader, "_transport").close()  # noqa: B009


@contextlib.contextmanager
def forked_agents() -> Iterator[None]:
    """Have runners of this process fork scripted agents."""
    execute = asyncio.create_subprocess_exec

    async def start(program: str, *arguments: str, **given: Any) -> Any:
        if (program, *arguments[:1]) != (sys.executable, str(AGENT)):
            return await execute(program, *arguments, **given)
        assert given.keys() == GIVEN, given
        order = {
            "arguments": arguments,
            "environment": given["env"],
            "cwd": str(given["cwd"]),
            "leads_group": given["process_group"] == 0,
        }
        fork = await fork_piped(_source(), order, given["limit"])
        return _Agent(fork.process, fork.stdin, fork.stdout, fork.stderr)

    with pytest.MonkeyPatch.context() as patch:
        if CAN_FORK:
            _source().until_ready()  # before a test counts the seconds of a run
            patch.setattr(asyncio, "create_subprocess_exec", start)
        yield


@functools.cache
def _source() -> OwnSource:
    return OwnSource("ready_agents")


# -- in the process that the others are forked from ---------------------------------------------------------


def serve_forks(orders: socket.socket) -> None:
    """Fork a process for each order, which goes on as the agent."""
    from support.acp import scripted_agent

    gc.collect()
    gc.freeze()
    order, files = take_orders(orders)
    take_on(order, files)
    sys.argv = list(order["arguments"])
    random.seed()
    end_with(scripted_agent.main)
