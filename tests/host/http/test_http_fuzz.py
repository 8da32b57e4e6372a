"""Nonsense for every route: ids, queries, bodies and headers of any kind never make the host fail."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from hostler.host.config import ConfigFile
from hostler.http import openapi
from hostler.http.app import ENDPOINTS
from support.examples import examples
from support.http_host import PUPPET, Served, serving
from support.http_nonsense import TEXTS, encoded, like
from support.trust import plugin_entry

pytestmark = pytest.mark.gate("http-bounds", "fuzzed-http")

ENDLESS = {"stream_workspace", "stream_conversation"}
"""Streams over many runs."""
PER_ROUTE = examples(10, 50)


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_request_makes_the_host_fail(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    document = json.loads(json.dumps(openapi.document(ENDPOINTS, "1")))

    async def scenario(served: Served) -> None:
        await served.say("say 1", conversation_id="same", event_id="same")
        statuses: dict[str, set[int]] = {}
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                for _ in range(PER_ROUTE):
                    status = await attempt(served, path, method, operation)
                    statuses.setdefault(operation["operationId"], set()).add(status)
        well = {name for name, found in statuses.items() if found & {200, 201, 202, 204}}
        assert len(well) > 15, "nonsense only: nothing of it was ever understood"
        assert (await served.client.get("/readyz")).status_code == 200
        # a configuration may have been applied that leaves the plugin out, and prunes
        await served.host.apply(ConfigFile(plugins=[plugin_entry(PUPPET)]), actor="test")
        await served.agent("afterwards")
        assert (await served.say("say 1", agent="afterwards"))["status"] == "completed"

    async def attempt(served: Served, path: str, method: str, operation: dict[str, Any]) -> int:
        queries = []
        for parameter in operation["parameters"]:
            if parameter["name"] == "prune":  # understood, it removes the plugin that the last run needs
                continue
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", encoded(dice.choice(TEXTS)))
            elif parameter["in"] == "query" and (parameter["required"] or dice.random() < 0.3):
                made = like(parameter["schema"], document, dice)
                text = made if isinstance(made, str) else json.dumps(made)
                queries.append(f"{parameter['name']}={encoded(text)}")
        if method == "post" and path.endswith("/restart"):
            return 0  # restarts a real process each time; has its own test
        url = path + ("?" + "&".join(queries) if queries else "")
        content = b""
        if "requestBody" in operation:
            (schema,) = [kind["schema"] for kind in operation["requestBody"]["content"].values()]
            content = json.dumps(like(schema, document, dice)).encode()
            if dice.random() < 0.1:
                content = bytes(dice.randrange(256) for _ in range(dice.randrange(40)))
        headers = {b"content-type": b"application/json"}
        if dice.random() < 0.2:
            headers[b"idempotency-key"] = dice.choice([b"k", b"", "ü".encode(), b"x" * 300])
        if dice.random() < 0.2:
            headers[b"last-event-id"] = dice.choice([b"1", b"x", b"-1"])
        request = served.client.build_request(method.upper(), url, content=content, headers=headers)
        answer = await served.client.send(request, stream=True)
        # a run `..` makes its stream that of the workspace
        endless = operation["operationId"] in ENDLESS or request.url.path == "/v1/stream"
        if answer.status_code == 200 and endless:
            await answer.aclose()
            return 200
        await answer.aread()
        assert answer.status_code < 500, (method, url, content, answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json", (method, url, answer.text)
        return answer.status_code

    await _with(tmp_path, scenario)


async def _with(tmp_path: Path, scenario: Any, **settings: Any) -> None:
    async with serving(tmp_path, **settings) as served:
        await scenario(served)
