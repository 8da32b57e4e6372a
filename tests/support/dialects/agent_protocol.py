"""Agent Protocol over plain HTTP: its wire as documented, and what its document demands of answers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import jsonschema_rs

from support.databases import TEST_SECONDS
from support.http_host import ADMIN_KEY

TEXT, OBJECT = {"type": "string"}, {"type": "object"}
MOMENT = {"type": "string", "format": "date-time"}


def shape(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """The schema of an object: its members that have to be there, and others that may."""
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}


def listed(items: Any) -> dict[str, Any]:
    """The schema of a list."""
    return {"type": "array", "items": items}


BLOCK = shape({"type": TEXT}, text=TEXT, metadata=OBJECT)
MESSAGE = shape(
    {"role": TEXT, "content": {"oneOf": [TEXT, listed(BLOCK)]}}, id=TEXT, metadata=OBJECT, type=False
)
AGENT = shape(
    {
        "agent_id": TEXT,
        "name": TEXT,
        "capabilities": {"type": "object", "properties": {"ap.io.messages": {"type": "boolean"}}},
    },
    description=TEXT,
    metadata=OBJECT,
)
AGENT_SCHEMAS = shape(
    {"agent_id": TEXT, "input_schema": OBJECT, "output_schema": OBJECT},
    state_schema=OBJECT,
    config_schema=OBJECT,
)
RUN = shape(
    {
        "run_id": TEXT,
        "thread_id": TEXT,
        "created_at": MOMENT,
        "updated_at": MOMENT,
        "status": {"enum": ["pending", "error", "success", "timeout", "interrupted"]},
        "metadata": OBJECT,
        "kwargs": OBJECT,
        "multitask_strategy": {"enum": ["reject", "rollback", "interrupt", "enqueue"]},
    },
    agent_id=TEXT,
    assistant_id=False,
)
WAITED = shape({"run": RUN, "values": OBJECT, "messages": listed(MESSAGE)})
THREAD = shape(
    {
        "thread_id": TEXT,
        "created_at": MOMENT,
        "updated_at": MOMENT,
        "metadata": OBJECT,
        "status": {"enum": ["idle", "busy", "interrupted", "error"]},
    },
    values={"type": ["object", "null"]},
    messages=listed(MESSAGE),
)
STATE = shape({"checkpoint": shape({"checkpoint_id": TEXT}), "values": OBJECT}, metadata=OBJECT)
ITEM = shape(
    {
        "namespace": listed(TEXT),
        "key": TEXT,
        "value": OBJECT,
        "created_at": MOMENT,
        "updated_at": MOMENT,
    }
)


class Event(NamedTuple):
    """An event of a stream."""

    id: str | None
    name: str
    data: Any


class Protocol:
    """A client that checks each answer against the schema of its kind."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def ask(self, method: str, path: str, schema: Any = None, status: int = 200, **given: Any) -> Any:
        """Ask, and return the checked JSON of the answer; without a schema, the whole answer."""
        answer = await self.http.request(method, path, **given)
        assert answer.status_code == status, (path, answer.text)
        if schema is None:
            return answer
        jsonschema_rs.validate(schema, answer.json(), validate_formats=True)
        return answer.json()

    async def wait(self, *steps: list[Any] | str, path: str = "/runs/wait", **body: Any) -> Any:
        """Create a run and wait for it."""
        return await self.ask("POST", path, WAITED, json={"messages": user(*steps), **body})

    async def events(self, method: str, path: str, **given: Any) -> list[Event]:
        """All events of a stream."""
        async with self.http.stream(method, path, **given) as answer:
            assert answer.status_code == 200, await answer.aread()
            return [event async for event in read_events(answer)]


def user(*steps: list[Any] | str) -> list[dict[str, Any]]:
    """The messages of a request that has the agent take these steps, or of texts."""
    if steps and isinstance(steps[0], str):
        return [{"role": "user", "content": one} for one in steps]
    return [{"role": "user", "content": [{"type": "text", "text": json.dumps(steps, ensure_ascii=False)}]}]


async def read_events(answer: httpx.Response) -> AsyncIterator[Event]:
    """The events of a stream as they come."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield Event(fields.get("id"), fields["event"], json.loads(fields["data"]))
            fields = {}


def texts(messages: list[dict[str, Any]], role: str = "assistant") -> list[Any]:
    """What was said."""
    return [one["content"] for one in messages if one["role"] == role and not one.get("tool_calls")]


@contextlib.asynccontextmanager
async def agent_protocol(url: str, key: str = ADMIN_KEY) -> AsyncIterator[Protocol]:
    """A client of a host."""
    headers = {"x-api-key": key}
    async with httpx.AsyncClient(base_url=f"{url}/langgraph", headers=headers, timeout=TEST_SECONDS) as http:
        yield Protocol(http)
