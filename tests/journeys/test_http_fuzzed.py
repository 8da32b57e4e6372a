"""Schemathesis over the OpenAPI document of a real `hostler serve`: no 500, every answer as documented."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from support.command_line import EXAMPLES, CommandLine, environment
from support.http_fuzzing import configuration, furnish

SOAK = bool(os.environ.get("HOSTLER_SOAK"))
EXAMPLES_PER_ROUTE = 100 if SOAK else 2
BOUND_SECONDS = 7_200 if SOAK else 1_500
"""Only ends what hangs."""
# methods that a path does not have: tests/host/http/test_http_refusals.py, by the routes; some paths have
# those of a
# standard interface, which are not in the document
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "ignored_auth",
]
FAILS_ALWAYS = "http://127.0.0.1:1/"  # nobody listens there: deliveries wait for their next try

pytestmark = [pytest.mark.gate("fuzzed-http"), pytest.mark.timeout(BOUND_SECONDS + 300)]


def test_nothing_that_schemathesis_sends_makes_the_host_fail(hostler: CommandLine) -> None:
    for name in ("guide", "shop"):
        shutil.copytree(
            EXAMPLES / name,
            hostler.cwd / name,
            ignore=shutil.ignore_patterns("*.sqlite3*", "__pycache__"),
        )
    secret = hostler.cwd / "secret"
    secret.write_text("hush, for it is a secret")
    webhook = {"name": "nobody", "url": FAILS_ALWAYS, "secret": f"file:{secret}"}
    agents = [
        {"name": "guide", "runner": "plugin:hostler/guide/default", "config": {"pace": 0}},
        {"name": "clerk", "runner": "plugin:acme/shop/default", "config": {"tools": ["shop.*"]}},
    ]
    conf = hostler.cwd / "conf.yaml"
    plugins = [str(hostler.cwd / name) for name in ("guide", "shop")]
    conf.write_text(json.dumps({"plugins": plugins, "agents": agents, "webhooks": [webhook]}))
    with hostler.serving("--config", conf, "--hold-seconds", "0.2") as server:
        with server.client() as client:
            made = furnish(client)
        told = hostler.cwd / "schemathesis.toml"
        told.write_text(configuration(made, examples=EXAMPLES_PER_ROUTE))
        options = ["--checks", ",".join(CHECKS), "--continue-on-failure", "--no-color", "--warnings", "off"]
        options += [] if SOAK else ["--generation-deterministic", "--seed", "1"]
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(told), "run"),
                *(f"{server.url}/v1/openapi.json", "-H", f"Authorization: Bearer {server.key}", *options),
            ],
            env=environment(None, FUZZED_URL=server.url, FUZZED_KEY=server.key, NO_PROXY="127.0.0.1"),
            cwd=hostler.cwd,
            capture_output=True,
            text=True,
            timeout=BOUND_SECONDS,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "Tested: " in ran.stdout
        assert "Traceback" not in server.log, server.log
        with server.client() as client:
            assert client.get("/readyz").status_code == 200
        assert server.stop() == 0
