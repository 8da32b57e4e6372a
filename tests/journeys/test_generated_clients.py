"""Clients that are generated from the OpenAPI document, in TypeScript and Python, compile and work."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.http import openapi
from hostler.http.app import ENDPOINTS
from hostler.version import VERSION
from support.cached_installs import missing
from support.http_host import ADMIN_KEY, Served, serving
from support.node_clients import node_clients

pytestmark = pytest.mark.timeout(300)
NODE = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3")
OPTIONS = ("--default-non-nullable", "false")
"""Fields with a default may be left out of requests (docs/http.md)."""
PYTHON = "openapi-python-client==0.29.1"
IN_TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { components, paths } from "./api";

const [baseUrl, key] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } });
const sent = await client.POST("/v1/events", {
  params: { query: { wait: 30 } },
  body: { event_type: "message.received", input: { text: "say 1" } },
});
const run = sent.data as components["schemas"]["RunRecord"];
const read = await client.GET("/v1/runs/{run_id}", { params: { path: { run_id: run.run_id } } });
const none = await client.GET("/v1/runs/{run_id}", { params: { path: { run_id: "none" } } });
console.log(JSON.stringify([read.data?.status, none.error?.code, none.response.status]));
"""
IN_PYTHON = """
import json, sys
from hostler_client import AuthenticatedClient
from hostler_client.api.runs import get_run, list_runs
from hostler_client.models import RunView

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
page = list_runs.sync(client=client, limit=10)
run = get_run.sync(page.items[0].run_id, client=client)
assert isinstance(run, RunView), run
none = get_run.sync_detailed("none", client=client)
print(json.dumps([run.status, none.parsed.code, none.status_code]))
"""
EXPECTED = ["completed", "not_found", 404]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        await made.say("say 1")
        yield made


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(openapi.document(ENDPOINTS, VERSION)))
    return path


async def ran(folder: Path, *command: object) -> tuple[int, str]:
    """Run a command; its status, and all that it said."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_a_typescript_client_compiles_and_works(served: Served, document: Path, tmp_path: Path) -> None:
    node = node_clients(*NODE)
    node.lend_to(tmp_path)
    generator = node.module("openapi-typescript") / "bin" / "cli.js"
    generated = await ran(tmp_path, node.program, generator, document, *OPTIONS, "-o", "api.d.ts")
    assert generated[0] == 0, generated[1]
    assert "warn" not in generated[1].lower()
    (tmp_path / "use.ts").write_text(IN_TYPESCRIPT)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    flags = ("--strict", "--module", "esnext", "--target", "es2022", "--moduleResolution", "bundler")
    (tmp_path / "node.d.ts").write_text("declare const process: { argv: string[] };\n")
    compiler = node.module("typescript") / "bin" / "tsc"
    compiled = await ran(tmp_path, node.program, compiler, *flags, "use.ts", "api.d.ts", "node.d.ts")
    assert compiled == (0, "")
    used = await ran(tmp_path, node.program, "use.js", served.url, ADMIN_KEY)
    assert (used[0], json.loads(used[1])) == (0, EXPECTED)


async def test_a_python_client_is_made_without_a_warning_and_works(
    served: Served, document: Path, tmp_path: Path
) -> None:
    tool = ("uv", "tool", "run", "--from", PYTHON, "openapi-python-client")
    there = await ran(tmp_path, *tool, "--version")
    if there[0]:
        missing(f"{PYTHON} cannot be installed: {there[1]}")
    made = await ran(
        tmp_path, *tool, "generate", "--path", document, "--fail-on-warning", "--output-path", "made"
    )
    assert made[0] == 0, made[1]
    (tmp_path / "use.py").write_text(IN_PYTHON)
    used = await ran(
        *(tmp_path, "uv", "run", "--no-project", "--quiet", "--with", "./made"),
        *("python", "use.py", served.url, ADMIN_KEY),
    )
    assert (used[0], json.loads(used[1].splitlines()[-1])) == (0, EXPECTED), used[1]
