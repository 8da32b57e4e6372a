"""MCP's official client, unmodified, at a host's `/mcp`; and messages as they are on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

from support.loopback import NO_CERTIFICATES

GENERATIONS = ("legacy", "2026-07-28")
"""How the client speaks: with a handshake and a session, or with neither."""
STATELESS = "2026-07-28"
SESSION = "2025-11-25"
BOUND_SECONDS = 60.0
TASKS = "io.modelcontextprotocol/tasks"
META = "io.modelcontextprotocol/"


@dataclass
class Heard:
    """What a client was told beside results."""

    progress: list[tuple[float, str]] = field(default_factory=list)
    logs: list[tuple[str, Any]] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

    async def note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, message or ""))

    async def note_log(self, params: Any) -> None:
        self.logs.append((params.level, params.data))

    @property
    def text(self) -> str:
        return "".join(message for _, message in self.progress)


Answering = Callable[[ElicitRequestParams], Awaitable[ElicitResult] | ElicitResult]


@contextlib.asynccontextmanager
async def mcp_client(
    url: str,
    key: str,
    mode: str = "auto",
    *,
    heard: Heard | None = None,
    answer: Answering | None = None,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[Client]:
    """A client of the agents of a host. `answer`: what its user says to forms; without it there is none."""

    async def ask(context: Any, params: ElicitRequestParams) -> ElicitResult:
        if heard is not None:
            heard.asked.append(params)
        assert answer is not None
        given = answer(params)
        return given if isinstance(given, ElicitResult) else await given

    given = {"authorization": f"Bearer {key}", **(headers or {})}
    timeout = httpx2.Timeout(BOUND_SECONDS)
    async with httpx2.AsyncClient(headers=given, timeout=timeout, verify=NO_CERTIFICATES) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(
            transport,
            mode=mode,
            read_timeout_seconds=BOUND_SECONDS,
            elicitation_callback=None if answer is None else ask,
            logging_callback=None if heard is None else heard.note_log,
            **options,
        ) as client:
            yield client


def accept(**content: Any) -> ElicitResult:
    """What a user's client sends who filled in a form."""
    return ElicitResult(action="accept", content=content)


@dataclass
class Wire:
    """A client that sends what it is told to. `session`: headers that every later request has."""

    http: httpx.AsyncClient
    session: dict[str, str] = field(default_factory=dict)

    async def post(self, body: Any, **headers: str) -> httpx.Response:
        """Send a body as it is."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.http.post("/mcp", content=data, headers=self.headers(**headers))

    def headers(self, **more: str) -> dict[str, str]:
        given = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        return given | self.session | {name.replace("_", "-"): text for name, text in more.items()}

    async def begin(self, elicits: bool = False, version: str = SESSION) -> str:
        """Open a session; return its id."""
        capabilities: dict[str, Any] = {"elicitation": {}} if elicits else {}
        info = {"name": "wire", "version": "1"}
        hello = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}
        answer = await self.ask("initialize", hello)
        assert answer.status_code == 200, answer.text
        found: str = answer.headers["mcp-session-id"]
        self.session = {"mcp-session-id": found, "mcp-protocol-version": version}
        return found

    async def ask(self, method: str, params: Any = None, id_: Any = 1, **headers: str) -> httpx.Response:
        """Send a request of a session."""
        body = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}}
        return await self.post(body, **headers)

    async def ask_stateless(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        id_: Any = 1,
        *,
        name: str | None = None,
        **more: Any,
    ) -> httpx.Response:
        """Send a request without a session. `more`: the client's capabilities."""
        request = stateless(method, params, id_, **more)
        return await self.post(request, **stateless_headers(request["params"], method, name))


def stateless(
    method: str, params: dict[str, Any] | None = None, id_: Any = 1, **capabilities: Any
) -> dict[str, Any]:
    """A request of the stateless revision."""
    meta = {f"{META}protocolVersion": STATELESS, f"{META}clientCapabilities": capabilities}
    given = dict(params or {})
    given["_meta"] = meta | given.get("_meta", {})
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": given}


def stateless_headers(params: dict[str, Any], method: str, name: str | None = None) -> dict[str, str]:
    """The headers that repeat a request."""
    found = name or params.get("name") or params.get("uri") or params.get("taskId")
    own = {"mcp-protocol-version": STATELESS, "mcp-method": method}
    return own if found is None else own | {"mcp-name": found}


def messages_in(answer: httpx.Response) -> list[dict[str, Any]]:
    """The messages of a response, be it a stream or JSON."""
    if answer.headers["content-type"].startswith("application/json"):
        return [answer.json()]
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n") if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def result_in(answer: httpx.Response) -> dict[str, Any]:
    """The result of a response."""
    assert answer.status_code == 200, answer.text
    message = messages_in(answer)[-1]
    assert "result" in message, message
    found: dict[str, Any] = message["result"]
    return found


@contextlib.asynccontextmanager
async def wire(url: str, key: str) -> AsyncIterator[Wire]:
    """A client that sends what it is told to."""
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=BOUND_SECONDS, verify=NO_CERTIFICATES
    ) as http:
        yield Wire(http)


def texts_of(result: Any) -> list[str]:
    """The agent's complete messages in the result of a call."""
    structured = (
        result.structured_content if hasattr(result, "structured_content") else result["structuredContent"]
    )
    found: list[str] = structured["messages"]
    return found


async def follow(
    client: Wire, opened: Any, dice: random.Random, *, session: bool = True
) -> list[dict[str, Any]]:
    """The messages of a stream over broken connections: each once, to the response.

    `opened`: the request that opens it, which is sent again as long as no event has come.
    """
    found: list[dict[str, Any]] = []
    last: str | None = None
    while not (found and ("result" in found[-1] or "error" in found[-1])):
        left = dice.randrange(1, 12) if dice.random() < 0.8 else 10**9
        try:
            if not client.session and session:
                await client.begin()
            if last is None:
                stream = client.http.stream("POST", "/mcp", json=opened, headers=client.headers())
            else:
                stream = client.http.stream("GET", "/mcp", headers=client.headers(last_event_id=last))
            async with stream as answer:
                if answer.status_code >= 500:
                    raise httpx.RemoteProtocolError(str(answer.status_code))
                assert answer.status_code == 200, await answer.aread()
                seen, data = last, ""
                async for line in answer.aiter_lines():
                    if line.startswith("id: "):
                        seen = line.removeprefix("id: ")
                    elif line.startswith("data: "):
                        data = line.removeprefix("data: ")
                    elif not line:
                        last = seen
                        if data:
                            found.append(json.loads(data))
                        data = ""
                        left -= 1
                    if left <= 0:
                        break
        except (httpx.TransportError, OSError):
            await asyncio.sleep(0.02)
    return found


async def transcript(url: str, key: str, run_id: str, dice: random.Random) -> list[str]:
    """The texts of the complete messages of a run, from the result of its task, over broken connections."""
    params = {"taskId": f"task_{run_id}", "_meta": {"progressToken": "p"}}
    opened = {"jsonrpc": "2.0", "id": "t", "method": "tasks/result", "params": params}
    async with wire(url, key) as client:
        messages = await follow(client, opened, dice)
    progress = [
        one["params"]["progress"] for one in messages if one.get("method") == "notifications/progress"
    ]
    assert progress == sorted(set(progress)), "a message came twice"
    return texts_of(messages[-1]["result"])
