"""A host with an identity provider, and people who sign in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec

from hostler.domain.sign_in import SignInEntry
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from support.http_host import Event, Served, iter_events, serving
from support.identity_provider import CLIENT, Browser, FakeProvider
from support.loopback import NO_CERTIFICATES

HOLD = {"event_type": "message.received", "agent": "puppet", "input": {"text": "hold"}}
RULES: list[dict[str, Any]] = [
    {"group": "desk", "role": "approver"},
    {"email": "Olga@example.com", "role": "owner"},
    {"group": "other desk", "role": "operator", "workspace": "other"},
    {"email_domain": "example.com", "role": "reader"},
]


@dataclass
class Desk:
    """A host with a provider. `entry`: its entry of `sign_in`."""

    served: Served
    provider: FakeProvider
    entry: SignInEntry

    def browser(self) -> Browser:
        return Browser(self.served.url)

    async def configure(self, **changes: Any) -> None:
        self.entry = msgspec.structs.replace(self.entry, **changes)
        await self.served.host.apply(ConfigFile(sign_in=[self.entry]), actor="test")

    async def signed_in(self, **person: Any) -> Browser:
        self.provider.person = {**self.provider.person, **person}
        browser = self.browser()
        answer = await browser.sign_in(self.provider)
        assert "problem" not in answer.headers["location"], answer.headers
        return browser

    async def facts(self, action: str) -> list[dict[str, Any]]:
        found = (await self.served.client.get("/v1/audit?limit=200")).json()["items"]
        return [one for one in found if one["action"] == action]


def entry_for(provider: FakeProvider, url: str, **more: Any) -> SignInEntry:
    data = {
        "name": "corp",
        "issuer": provider.issuer,
        "client_id": CLIENT,
        "client_secret": "env:HOSTLER_TEST_CLIENT_SECRET",
        "redirect_url": f"{url}/v1/auth/callback",
        "members": RULES,
        "network": [f"127.0.0.1:{provider.port}"],
        **more,
    }
    return convert(data, SignInEntry, "corp")


@asynccontextmanager
async def desk(tmp_path: Path, **more: Any) -> AsyncIterator[Desk]:
    async with FakeProvider() as provider, serving(tmp_path / "data") as served:
        made = Desk(served, provider, entry_for(provider, served.url, **more))
        await made.configure()
        yield made


async def invite(made: Desk, email: str, role: str, **more: Any) -> dict[str, Any]:
    answer = await made.served.client.post("/v1/members", json={"email": email, "role": role, **more})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def joined(made: Desk, email: str, role: str) -> tuple[Browser, dict[str, Any]]:
    """A person who was invited and has signed in; the browser and the session."""
    await invite(made, email, role)
    browser = await made.signed_in(sub=f"of {email}", email=email, groups=[], name=email.partition("@")[0])
    return browser, (await browser.get("/v1/auth/session")).json()


@asynccontextmanager
async def holding(browser: Browser) -> AsyncIterator[AsyncIterator[Event]]:
    """A stream of a run that goes on, opened with a session."""
    headers = {
        "accept": "text/event-stream",
        "origin": browser.origin or browser.url,
        "x-csrf-token": browser.csrf,
        "cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items()),
    }
    async with (
        httpx.AsyncClient(base_url=browser.url, timeout=60, verify=NO_CERTIFICATES) as client,
        client.stream("POST", "/v1/events", json=HOLD, headers=headers) as answer,
    ):
        events = iter_events(answer)
        assert (await anext(events)).type == "message.delta"
        yield events


async def removed_here(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    assert (await made.served.client.delete(f"/v1/members/{me['member_id']}")).status_code == 204


async def demoted(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    path = f"/v1/members/{me['member_id']}"
    assert (await made.served.client.put(path, json={"role": "reader"})).status_code == 200
