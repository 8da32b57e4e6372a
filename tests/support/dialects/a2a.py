"""The official client of A2A, unmodified, and what the events of a task fold to."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest, SubscribeToTaskRequest
from a2a.utils.errors import UnsupportedOperationError
from google.protobuf.json_format import MessageToDict, ParseDict

from support.databases import TEST_SECONDS
from support.http_host import ADMIN_KEY
from support.loopback import NO_CERTIFICATES

BINDINGS = ("JSONRPC", "HTTP+JSON")
REQUESTS = "urn:hostler:a2a:requests:1"
TOOLS = "urn:hostler:a2a:tools:1"
OVER = frozenset({"COMPLETED", "FAILED", "CANCELED", "REJECTED"})


@contextlib.asynccontextmanager
async def a2a_client(
    url: str,
    key: str = ADMIN_KEY,
    *,
    agent: str = "player",
    binding: str = "JSONRPC",
    streaming: bool = True,
    polling: bool = False,
    **headers: str,
) -> AsyncIterator[Client]:
    """The client of an agent, made from its card. `headers`: more of each request, with `_` for `-`."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(
        headers={"authorization": f"Bearer {key}", **given}, timeout=TEST_SECONDS, verify=NO_CERTIFICATES
    ) as http:
        card = await A2ACardResolver(http, f"{url}/a2a/{agent}").get_agent_card()
        for interface in card.supported_interfaces:  # a test may reach the host by another address
            interface.url = f"{url}/a2a/" + interface.url.partition("/a2a/")[2]
        config = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=[binding],
            streaming=streaming,
            polling=polling,
        )
        yield ClientFactory(config).create(card)


_numbers = iter(range(1, 1_000_000))


def message(
    *parts: str | Part | dict[str, Any],
    context_id: str = "",
    task_id: str = "",
    message_id: str = "",
    metadata: dict[str, Any] | None = None,
) -> Message:
    """A message: texts, data, or parts."""
    made = Message(
        message_id=message_id or f"m-{next(_numbers)}",
        role=Role.ROLE_USER,
        context_id=context_id,
        task_id=task_id,
        parts=[_part(part) for part in parts],
    )
    if metadata is not None:
        made.metadata.update(metadata)
    return made


def _part(given: str | Part | dict[str, Any]) -> Part:
    if isinstance(given, Part):
        return given
    return Part(text=given) if isinstance(given, str) else ParseDict({"data": given}, Part())


@dataclass
class Told:
    """What the events of a task fold to, as the protocol says: chunks are parts of their artifacts."""

    task_id: str = ""
    context_id: str = ""
    state: str = ""
    parts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Artifact -> its parts so far."""
    incomplete: set[str] = field(default_factory=set)
    states: list[str] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    events: int = 0

    def take(self, response: Any) -> None:
        """Add an event of the client's."""
        event = MessageToDict(response)
        self.events += 1
        if task := event.get("task"):
            self.take_task(task)
        elif update := event.get("statusUpdate"):
            assert (update["taskId"], update.get("contextId", "")) == (self.task_id, self.context_id)
            self.metadata = update.get("metadata", self.metadata)
            self._status(update["status"])
        else:
            update = event["artifactUpdate"]
            artifact = update["artifact"]
            name = artifact["artifactId"]
            assert bool(update.get("append")) == (name in self.parts)
            self.parts.setdefault(name, []).extend(artifact["parts"])
            if update.get("metadata", {}).get("hostler", {}).get("incomplete"):
                self.incomplete.add(name)

    def take_task(self, task: dict[str, Any]) -> None:
        """Begin anew with a whole task."""
        self.task_id, self.context_id = task["id"], task.get("contextId", "")
        self.parts = {one["artifactId"]: list(one["parts"]) for one in task.get("artifacts", [])}
        self.incomplete = set()
        self.metadata = task.get("metadata", {})
        self._status(task["status"])

    def _status(self, status: dict[str, Any]) -> None:
        self.state = status["state"].removeprefix("TASK_STATE_")
        if self.states[-1:] != [self.state]:
            self.states.append(self.state)
        self.statuses.append(status)

    @property
    def texts(self) -> list[str]:
        """The texts of the complete messages."""
        return [
            "".join(part.get("text", "") for part in parts)
            for name, parts in self.parts.items()
            if name.startswith("message-") and name not in self.incomplete
        ]

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The data parts of the last status: what the task waits for."""
        said = self.statuses[-1].get("message", {})
        return [part["data"] for part in said.get("parts", []) if "data" in part]

    @property
    def said(self) -> str:
        """The text of the last status."""
        parts = self.statuses[-1].get("message", {}).get("parts", [])
        return "".join(part.get("text", "") for part in parts)


async def told(client: Client, sent: Message, **configuration: Any) -> Told:
    """Send a message, and read all of its answer."""
    found = Told()
    request = SendMessageRequest(message=sent)
    if configuration:
        ParseDict(configuration, request.configuration)
    async for response in client.send_message(request):
        found.take(response)
    return found


async def got(client: Client, task_id: str, **options: Any) -> dict[str, Any]:
    """A task as it is."""
    task: dict[str, Any] = MessageToDict(await client.get_task(GetTaskRequest(id=task_id, **options)))
    return task


def context(**headers: str) -> ClientCallContext:
    """The context of a call with more headers, with `_` for `-`."""
    return ClientCallContext(
        service_parameters={name.replace("_", "-"): value for name, value in headers.items()}
    )


async def followed(client: Client, task_id: str, dice: random.Random, *, at_most: int = 8) -> Told:
    """Subscribe to a task until it is over, disconnected at random places; get it then.

    Connections that break, and a host that is not there for a while, are the same to it.
    """
    while True:
        found = Told()
        left = dice.randint(1, at_most) if dice.random() < 0.8 else 10**9
        try:
            stream = client.subscribe(SubscribeToTaskRequest(id=task_id))
            async with contextlib.aclosing(stream):  # type: ignore[type-var]
                async for response in stream:
                    found.take(response)
                    left -= 1
                    if found.state in OVER:
                        return found
                    if left <= 0:
                        break
        except UnsupportedOperationError:
            found = Told()
            with contextlib.suppress(A2AClientError):
                found.take_task(await got(client, task_id))
                return found
        except (A2AClientError, OSError):
            await asyncio.sleep(0.02)


async def transcript(
    url: str, key: str, run_id: str, dice: random.Random, *, agent: str = "player", binding: str = "JSONRPC"
) -> list[str]:
    """The texts of the complete messages of a run, over broken connections and hosts that are killed."""
    while True:
        try:
            async with a2a_client(url, key, agent=agent, binding=binding) as client:
                return (await followed(client, run_id, dice)).texts
        except (A2AClientError, OSError):
            await asyncio.sleep(0.02)
