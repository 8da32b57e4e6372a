"""The secrets of people who sign in: in no byte that the host wrote, and in no answer but their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest
import yaml

from hostler.domain.redaction import forms_of
from hostler.storage.sql.connect import open_database
from support.command_line import CommandLine, Server
from support.every_row import everything
from support.identity_provider import CLIENT, SECRET, Browser, FakeProvider
from support.loopback import NO_CERTIFICATES

pytestmark = [pytest.mark.gate("redaction", "sign-in"), pytest.mark.timeout(300)]
PATHS = ["audit", "problems", "events", "runs", "keys", "secrets", "members", "config", "config/sign_in"]
PATHS += ["auth/session", "auth/sessions", "auth/keys", "openapi.json"]


@contextlib.asynccontextmanager
async def served(hostler: CommandLine, *options: str) -> AsyncIterator[Server]:
    """A server process, while this loop goes on: the provider is in it."""
    running = hostler.serving("--log-level", "debug", *options)
    server = await asyncio.to_thread(running.__enter__)
    try:
        yield server
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


def entry_of(provider: FakeProvider, url: str) -> dict[str, Any]:
    return {
        "name": "corp",
        "issuer": provider.issuer,
        "client_id": CLIENT,
        "client_secret": "env:THE_CLIENTS_SECRET",
        "redirect_url": f"{url}/v1/auth/callback",
        "network": [f"127.0.0.1:{provider.port}"],
        "members": [{"group": "desk", "role": "administrator"}],
    }


class Findings:
    """What was said where, and what must be nowhere."""

    def __init__(self) -> None:
        self.said: dict[str, bytes] = {}
        self.canaries: dict[str, str] = {"client secret": SECRET}

    async def ask(self, url: str, cookies: dict[str, str], token: str, path: str) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(base_url=url, cookies=cookies, verify=NO_CERTIFICATES) as client:
            answer = await client.get(path, headers=headers)
        body = answer.text
        if path == "/v1/auth/session" and answer.status_code == 200:
            body = body.replace(answer.json()["csrf_token"], "")
        self.said[f"{path} #{len(self.said)}"] = f"{answer.status_code} {answer.headers} {body}".encode()

    def found(self) -> list[str]:
        wanted = {form.encode(): name for name, value in self.canaries.items() for form in forms_of(value)}
        return [
            f"{name} in {place}"
            for place, data in self.said.items()
            for form, name in wanted.items()
            if form in data
        ]


async def sign_in(findings: Findings, provider: FakeProvider, browser: Browser, nth: str) -> httpx.Response:
    """Sign in as `Browser.sign_in` does, and note each secret of it."""
    location = await browser.begin()
    sent = dict(parse_qsl(urlsplit(location).query))
    callback = provider.authorize(location)
    findings.canaries |= {
        f"state {nth}": sent["state"],
        f"nonce {nth}": sent["nonce"],
        f"code {nth}": parse_qs(urlsplit(callback).query)["code"][0],
        f"cookie of the sign-in {nth}": browser.cookies["hostler-sign-in"],
    }
    answer = await browser.get(callback)
    form = parse_qs([one for one in provider.asked if one.path == "/token"][-1].body.decode())
    findings.canaries[f"verifier {nth}"] = form["code_verifier"][0]
    findings.said[f"location {nth}"] = str(answer.headers["location"]).encode()
    return answer


async def test_no_secret_of_a_sign_in_is_kept_or_told(tmp_path: Path, database_url: str) -> None:
    postgres = database_url if database_url.startswith("postgresql:") else None
    options = ["--database", postgres] if postgres else []
    hostler = CommandLine(tmp_path / "data", tmp_path, THE_CLIENTS_SECRET=SECRET)
    findings, data = Findings(), tmp_path / "data"
    master = tmp_path / "master"
    master.write_text(os.urandom(32).hex())
    async with FakeProvider() as provider:
        provider.access_token = f"access-{secrets.token_urlsafe(24)}"
        provider.in_token = False
        findings.canaries["access token"] = provider.access_token
        async with served(hostler, *options) as server:
            admin = server.key
            config = tmp_path / "c.yaml"
            entry = entry_of(provider, server.url)
            config.write_text(yaml.safe_dump({"sign_in": [entry], "master_key": [f"file:{master}"]}))
            applied = await asyncio.to_thread(hostler, "apply", config)
            assert applied.status == 0, applied.err
            browser = Browser(server.url)
            answer = await sign_in(findings, provider, browser, "of ada")
            assert answer.headers["location"] == "/docs"
            assert "/userinfo" in provider.paths()
            session = (await browser.get("/v1/auth/session")).json()
            browser.csrf = session["csrf_token"]
            body = {"name": "mine", "rights": ["runs:read"]}
            made = (await browser.request("POST", "/v1/auth/keys", json=body)).json()
            findings.canaries |= {
                "session": browser.cookies["hostler-session"],
                "token for writes": browser.csrf,
                "personal key": made["key"],
            }
            await liars(findings, provider, server)
            for number, token in enumerate(provider.issued):
                findings.canaries[f"ID token {number}"] = token
            for path in PATHS:
                await findings.ask(server.url, browser.cookies, "", f"/v1/{path}")
                await findings.ask(server.url, {}, admin, f"/v1/{path}")
                await findings.ask(server.url, {}, made["key"], f"/v1/{path}")
                await findings.ask(server.url, {"hostler-session": browser.csrf}, "", f"/v1/{path}")
            for path in ("/metrics", "/sign-in?problem=token"):
                await findings.ask(server.url, {}, admin, path)
            for words in (["doctor"], ["audit", "list", "--json"], ["members", "list"], ["export"]):
                ran = await asyncio.to_thread(hostler, *words)
                findings.said[" ".join(words)] = (ran.out + ran.err).encode()
            await asyncio.to_thread(server.stop, signal.SIGKILL)
            findings.said["log"] = server.log.encode()
    for file in sorted(data.rglob("*")):
        if file.is_file() and file.name != "admin.key":
            findings.said[str(file)] = file.read_bytes()
    opened = open_database(postgres or data / "hostler.db")
    findings.said["rows"] = (await opened.read(everything)).encode("utf-8", "surrogateescape")
    await opened.close()
    assert b"a sign-in with corp was refused" in findings.said["log"]
    assert len(findings.canaries) >= 20
    assert findings.found() == []
    for name, value in findings.canaries.items():  # each would have been found
        findings.said = {"here": json.dumps({"said": f"x{value}"}).encode()}
        assert f"{name} in here" in findings.found()


async def liars(findings: Findings, provider: FakeProvider, server: Server) -> None:
    """Sign-ins that fail, at a provider whose answers repeat whatever it was sent, and gave out."""
    for number, path in enumerate(["/token", "/token", "/userinfo", "/keys"]):
        loud = {"error": "invalid", "said": [*findings.canaries.values(), *provider.issued]}
        if number == 1:
            loud |= {"id_token": "eyJhbGciOiJub25lIn0.e30."}
        browser = Browser(server.url)
        provider.answers = {path: (200 if number in (1, 3) else 500, json.dumps(loud).encode())}
        if path == "/keys":
            provider.rotate()
        answer = await sign_in(findings, provider, browser, f"that fails {number}")
        assert answer.headers["location"].startswith("/sign-in?problem="), answer.headers
    provider.answers = {}
