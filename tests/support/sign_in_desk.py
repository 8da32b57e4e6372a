"""A host with an identity provider, and people who sign in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.sign_in import SignInEntry
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from support.http_host import Served, serving
from support.identity_provider import CLIENT, Browser, FakeProvider

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
