"""The model door of one connection to a host: its runs by key, and the port that they share."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hostler_protocol.events import AgentRunContext
from hostler_sdk.host_api.port import HostCalls
from hostler_sdk.model_door.exchange import DoorAnswer, DoorRequest, error_answer
from hostler_sdk.model_door.http_server import ADDRESS, HttpServer
from hostler_sdk.model_door.limits import MAX_ENDED_KEYS
from hostler_sdk.model_door.mcp import PATH as MCP_PATH
from hostler_sdk.model_door.problems import DoorError
from hostler_sdk.model_door.run_door import PREFIX, RunDoor

KEY_PREFIX = "hostler_door_"
"""Begins like the other keys of Hostler, which are kept out of logs by their form."""
_KEY_BYTES = 32
_PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_NO_PROXY = ("NO_PROXY", "no_proxy")
_WRONG = (
    "this is no key of this door: use ctx.models.openai_key, which is the run's own, or the variables of "
    "ctx.models.openai_variables or ctx.models.anthropic_variables"
)
_OVER = "the run of this key is over; each run has a key of its own"


class ModelDoor:
    """The runs that asked for their door, by key. It listens once a run asks for the address."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._runs: dict[bytes, RunDoor] = {}
        self._ended: OrderedDict[bytes, None] = OrderedDict()
        self._server: HttpServer | None = None
        self._environment = asyncio.Lock()

    @property
    def address(self) -> str:
        """Where it listens. RuntimeFailure where this process may not."""
        if self._server is None:
            self._server = HttpServer(self.answer)
        return self._server.url

    @property
    def url(self) -> str:
        """The base address of the models."""
        return self.address + PREFIX

    @property
    def mcp_url(self) -> str:
        """The address of the tools."""
        return self.address + MCP_PATH

    def open(self, given: AgentRunContext, host: HostCalls) -> RunDoor:
        """Open the door of a run."""
        door = RunDoor(given, host, KEY_PREFIX + secrets.token_urlsafe(_KEY_BYTES))
        self._runs[_digest(door.key)] = door
        return door

    def shut(self, door: RunDoor) -> None:
        """End the key of a run that is over."""
        digest = _digest(door.key)
        if self._runs.pop(digest, None) is not None:
            self._ended[digest] = None
            if len(self._ended) > MAX_ENDED_KEYS:
                self._ended.popitem(last=False)

    def close(self) -> None:
        """Close the port."""
        if self._server is not None:
            self._server.close()

    async def answer(self, request: DoorRequest) -> DoorAnswer:
        """Answer a request in the name of the run whose key it has."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            key = request.headers.get("x-api-key") or request.headers.get("api-key", "")
        digest = _digest(key.strip())
        door = self._runs.get(digest)
        if door is None:
            text = _OVER if digest in self._ended else _WRONG
            return error_answer(DoorError(401, text, "invalid_api_key"), request)
        return await door.answer(request)

    def variables(self, door: RunDoor) -> dict[str, str]:
        """Return the environment variables by which programs find the door of a run."""
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": door.key, **_without_proxy()}

    def anthropic_variables(self, door: RunDoor) -> dict[str, str]:
        """Return those that programs read which know Anthropic; its address has no version in it."""
        return {"ANTHROPIC_BASE_URL": self.address, "ANTHROPIC_API_KEY": door.key, **_without_proxy()}

    @asynccontextmanager
    async def environment(self, door: RunDoor) -> AsyncIterator[dict[str, str]]:
        """Set the variables in this process, for one run at a time; others wait."""
        async with self._environment:
            found = self.variables(door)
            before = {name: os.environ.get(name) for name in found}
            os.environ.update(found)
            try:
                yield found
            finally:
                for name, value in before.items():
                    if value is None:
                        os.environ.pop(name, None)
                    else:
                        os.environ[name] = value


def _without_proxy() -> dict[str, str]:
    """Return variables that keep requests to the door from a proxy, if there is one."""
    found: dict[str, str] = {}
    if any(os.environ.get(name) for name in _PROXIES):
        for name in _NO_PROXY:
            known = os.environ.get(name, "")
            found[name] = known if ADDRESS in known.split(",") else f"{known},{ADDRESS}".lstrip(",")
    return found


def _digest(key: str) -> bytes:
    """Return a digest: keys are looked up by it, so that the time says nothing about a similar one."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
