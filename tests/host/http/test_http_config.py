"""What is saved over HTTP is checked whole: every mistake of a body in one answer, and nothing stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.domain.config_mistakes import MAX_SHOWN
from support.http_host import PUPPET_RUNNER, Served, serving

AGENT: dict[str, Any] = {
    "name": "support",
    "runner": "plugin:test/pupet/default",
    "priority": "high",
    "resource_policy": {"allowed_model_ids": ["mian"], "allowed_tool_nams": []},
    "filters": ["event.actr.actor_id == 'x'"],
}
TOLD = {
    "priority": "expected a whole number, not a text",
    "resource_policy.allowed_tool_nams": "unknown key; did you mean 'allowed_tool_names'?",
    "runner": "there is no plugin 'test/pupet'; did you mean 'plugin:test/puppet/default'?",
    "resource_policy.allowed_model_ids[0]": "there is no model 'mian'; did you mean 'main'?",
    "filters[0]": "event has no field 'actr'; did you mean 'actor'?",
}
MODELS = [{"id": "main", "base_url": "http://127.0.0.1:9/v1"}]


async def refused(served: Served, method: str, path: str, body: Any) -> dict[str, Any]:
    """The mistakes that are told of a body: what is wrong, by field."""
    answer = await served.client.request(method, path, json=body)
    assert answer.status_code == 400, answer.text
    problem = answer.json()
    assert problem["code"] == "invalid_argument"
    errors = problem["details"]["errors"]
    assert all(one["expected"] in problem["detail"] for one in errors[:MAX_SHOWN])
    return {one["field"]: one["expected"] for one in errors}


async def test_every_mistake_of_a_body_is_in_one_answer(tmp_path: Path, database_url: str) -> None:
    async with serving(tmp_path, database=database_url, agent=False) as served:
        kept = await served.client.put("/v1/config/models/main", json=MODELS[0])
        assert kept.status_code == 200, kept.text
        before = (await served.client.get("/v1/config")).json()
        for method, path in (
            ("POST", "/v1/agents"),
            ("PUT", "/v1/agents/support"),
            ("POST", "/v1/config/agents"),
            ("PUT", "/v1/config/agents/support"),
        ):
            assert await refused(served, method, path, AGENT) == TOLD, (method, path)
        whole = {
            "agents": [{"runner": PUPPET_RUNNER}, AGENT],
            "models": [{"id": "m", "provider": "opnai"}],
            "plugins": ["./echo", 5],
            "webhook": [],
        }
        for path in ("/v1/config?dry_run=true", "/v1/config"):
            told = await refused(served, "POST", path, whole)
            of_agent = {field.removeprefix("agents[1]."): text for field, text in told.items()}
            assert TOLD.items() <= of_agent.items()
            assert sorted(told.keys() - {f"agents[1].{field}" for field in TOLD}) == [
                "agents[0]",
                "models[0].provider",
                "plugins[0]",
                "plugins[1]",
                "webhook",
            ]
        assert (await served.client.get("/v1/config")).json() == before


NO_HOST = (
    "'a b' is neither a host nor a network: write example.org, *.example.org, 10.0.0.0/8, 127.0.0.1:8080 "
    "or [::1]:8080"
)
ENTRIES: dict[str, tuple[Any, dict[str, str]]] = {
    "models/m": (
        {"id": "m", "timout": 3, "max_retries": "two", "timeout": 0, "provider": "opnai", "api_key": "a b"},
        {
            "timout": "unknown key; did you mean 'timeout'?",
            "max_retries": "expected a whole number, not a text",
            "provider": "unknown provider 'opnai'; did you mean 'openai'?",
            "timeout": "is 0; expected seconds, more than 0",
            "api_key": "the API key is empty or holds characters that no key has, like spaces",
        },
    ),
    "models/n": (
        {"id": "n", "base_url": "nowhere"},
        {"base_url": "base_url must be an http address like https://api.example.com/v1"},
    ),
    "tools/mcp:m": (
        {"mcp": {"name": "m", "url": "https://a.example/mcp", "headers": {"X-Api-Key": "abc"}}},
        {
            "mcp.headers.X-Api-Key": "headers: X-Api-Key looks like a secret: write env:NAME or file:PATH, "
            "since it is stored"
        },
    ),
    "tools/openapi:o": (
        {"openapi": {"name": "o", "document": "https://a.example/api.json", "network": ["a b"]}},
        {"openapi.network": f"network: {NO_HOST}"},
    ),
    "tools/fetch:f": (
        {"fetch": {"name": "f", "only": ["a b"]}},
        {"fetch.only": NO_HOST},
    ),
    "tools/exec:a%20b": (
        {"exec": {"name": "a b", "second": 5}},
        {
            "exec.second": "unknown key; did you mean 'seconds'?",
            "exec.name": "'a b' is no name; expected a letter, then up to 31 letters, digits, _ or -",
        },
    ),
    "webhooks/w": (
        {"name": "w", "url": "ftp://a.example", "secret": "env:S", "event": []},
        {
            "event": "unknown key; did you mean 'events'?",
            "url": "its url must begin with https:// or http://",
        },
    ),
    "plugins/acme%2Fecho": (
        {"path": "./echo", "level": "trustd", "netwrk": []},
        {
            "level": "'trustd' is none of trusted, sandboxed; did you mean 'trusted'?",
            "netwrk": "unknown key; did you mean 'network'?",
            "path": "this is a relative path: send the absolute one",
        },
    ),
    "skills/policy": (
        {"path": "./skills", "name": "x"},
        {
            "name": "unknown key; known are path",
            "path": "this is a relative path: send the absolute one",
        },
    ),
    "retention/policy": (
        {"evnts": 1, "journals": "long"},
        {
            "evnts": "unknown key; did you mean 'events'?",
            "journals": "expected a number or null, not a text",
        },
    ),
}


async def test_every_mistake_of_an_entry_is_told_by_its_place_in_it(tmp_path: Path) -> None:
    async with serving(tmp_path, agent=False) as served:
        for path, (body, told) in ENTRIES.items():
            assert await refused(served, "PUT", f"/v1/config/{path}", body) == told, path
            assert await refused(served, "POST", f"/v1/config/{path.partition('/')[0]}", body) == told
        other = {**AGENT, "name": "other"}
        assert await refused(served, "PUT", "/v1/agents/support", other) == {
            **TOLD,
            "name": "the path names 'support': both must be the same",
            "resource_policy.allowed_model_ids[0]": "there is no model 'mian'; this host has no models",
        }


@pytest.mark.parametrize("body", [[], "text", {"runner": 5}, {}])
async def test_what_is_no_agent_at_all_is_told_as_that(tmp_path: Path, body: Any) -> None:
    async with serving(tmp_path, agent=False) as served:
        for path in ("/v1/agents", "/v1/config/agents"):
            assert await refused(served, "POST", path, body)
            assert await refused(served, "PUT", f"{path}/a", body)
            assert (await served.client.get("/v1/agents")).json()["items"] == []
