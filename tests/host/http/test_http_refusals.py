"""Whatever is wrong with a request: over a real socket it is a problem document, as OpenAPI shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from hostler.http import openapi
from hostler.http.app import ENDPOINTS
from hostler.http.limits import MAX_BODY_BYTES, MAX_HEADER_BYTES, MAX_QUERY_BYTES
from support.http_host import Served, serving
from support.json_schema import faults

DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(openapi.document(ENDPOINTS, "1")))
PROBLEM: dict[str, Any] = {"$ref": "#/components/schemas/Problem"}
JSON = {"content-type": "application/json"}
BAD, LARGE = "invalid_argument", "payload_too_large"
REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("POST", "/", {}, 405, "invalid_argument"),
    ("PUT", "/runs/x", {}, 405, "invalid_argument"),
    ("GET", "/v1/nothing", {}, 404, "not_found"),
    ("POST", "/v1/runs/r1/nothing", {"content": b"{}", "headers": JSON}, 404, "not_found"),
    ("PROPFIND", "/v1/nothing", {}, 404, "not_found"),
    ("GET", "/v1/runs/none", {}, 404, "not_found"),
    ("DELETE", "/v1/runs", {}, 405, BAD),
    ("PATCH", "/v1/agents/a", {"content": b"{}", "headers": JSON}, 405, BAD),
    ("PROPFIND", "/v1/agents", {}, 405, BAD),
    ("POST", "/healthz", {}, 405, BAD),
    ("POST", "/v1/events", {"content": b"", "headers": JSON}, 400, BAD),
    ("POST", "/v1/events", {"content": b'{"event_type": ', "headers": JSON}, 400, BAD),
    ("POST", "/v1/events", {"content": b"\xff\xfe{}", "headers": JSON}, 400, BAD),
    ("POST", "/v1/events", {"content": b"[" * 50_000, "headers": JSON}, 400, BAD),
    ("POST", "/v1/events", {"content": b"null", "headers": JSON}, 400, BAD),
    ("POST", "/v1/events", {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, BAD),
    ("PUT", "/v1/agents/a", {"content": b"{}", "headers": {"content-type": "nonsense"}}, 415, BAD),
    ("POST", "/v1/events", {"content": b" " * (MAX_BODY_BYTES + 1), "headers": JSON}, 413, LARGE),
    ("GET", f"/v1/runs/{'x' * (MAX_HEADER_BYTES + 1)}", {}, 431, LARGE),
    ("GET", "/v1/runs", {"headers": {"x-large": "y" * MAX_HEADER_BYTES}}, 431, LARGE),
    ("GET", f"/v1/runs?agent={'x' * MAX_QUERY_BYTES}", {}, 400, BAD),
    ("GET", "/v1/runs?status=null&since=null", {}, 400, BAD),
    ("GET", "/v1/runs?limit=0", {}, 400, BAD),
    ("GET", "/v1/runs?cursor=forged", {}, 400, BAD),
    ("GET", "/v1/runs/%ff", {}, 400, BAD),
    ("POST", "/v1/events", {"content": b"{}", "headers": {**JSON, "idempotency-key": "x" * 256}}, 400, BAD),
    ("GET", "/v1/plugins/connect", {}, 426, BAD),
    ("GET", "/v1/workers/connect", {}, 426, BAD),
]


async def test_every_refusal_is_a_problem_document(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for method, path, request, status, code in REFUSED:
            check(await served.client.request(method, path, **request), status, code)
        for key in (None, "wrong"):
            async with served.as_key(key) as client:
                check(await client.get("/v1/runs"), 401, "unauthorized")
                check(await client.get("/v1/nothing"), 404, "not_found")
        async with served.as_key(await served.key("default", "runs:read")) as client:
            check(await client.get("/v1/agents"), 403, "unauthorized")

    def check(answer: Any, status: int, code: str) -> None:
        where = f"{answer.request.method} {str(answer.request.url)[:80]}: {answer.text[:300]}"
        assert answer.status_code == status, where
        assert answer.headers["content-type"] == "application/problem+json", where
        problem = answer.json()
        assert (problem["status"], problem["code"]) == (status, code), where
        assert problem["detail"], where
        assert faults(problem, PROBLEM, DOCUMENT) == [], where

    async with serving(tmp_path) as served:
        await scenario(served)


async def test_every_path_says_which_methods_it_has_and_refuses_others(tmp_path: Path) -> None:
    by_path: dict[str, set[str]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(re.sub("{[a-z_]+}", "x", endpoint.path), set()).add(endpoint.method)
    async with serving(tmp_path, agent=False) as served:
        for path, methods in by_path.items():
            known = {*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}
            told = await served.client.options(path)
            assert (told.status_code, told.headers["allow"]) == (204, ", ".join(sorted(known))), path
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "QUERY", "PROPFIND"} - known:
                refused = await served.client.request(method, path)
                assert (refused.status_code, refused.headers["allow"]) == (405, ", ".join(sorted(known)))
