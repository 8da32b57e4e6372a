"""Cards of agents: found by the official client, verified with its own code, of no use to who forges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from a2a.client import A2ACardResolver
from a2a.types import AgentCard, GetExtendedAgentCardRequest
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier

from support.dialects.a2a import a2a_client, message, told
from support.dialects.players import player, playing
from support.http_host import Served
from support.loopback import NO_CERTIFICATES

PUBLIC = "https://agents.example.com"
SKILLS = [{"id": "lamps", "name": "Lamps", "description": "Knows 灯.", "tags": ["light"]}]


async def card_of(host: Served, agent: str = "player", **headers: str) -> AgentCard:
    async with httpx.AsyncClient(headers=headers, verify=NO_CERTIFICATES) as http:
        return await A2ACardResolver(http, f"{host.url}/a2a/{agent}").get_agent_card()


async def verify(host: Served, card: AgentCard) -> None:
    async with httpx.AsyncClient(verify=NO_CERTIFICATES) as http:
        keys = (await http.get(f"{host.url}/.well-known/jwks.json")).json()["keys"]

    def key_of(key_id: str | None, place: str | None) -> Any:
        assert place == f"{PUBLIC}/.well-known/jwks.json"
        return jwt.PyJWK.from_dict(next(key for key in keys if key["kid"] == key_id))

    create_signature_verifier(key_of, ["ES256"])(card)


async def test_a_card_says_where_its_agent_is_to_anybody(host: Served) -> None:
    await player(host, "灯 & co", metadata={"description": "Sells lamps. 卖灯"})
    card = await card_of(host, "%E7%81%AF%20%26%20co")
    assert (card.name, card.description) == ("灯 & co", "Sells lamps. 卖灯")
    assert {one.protocol_binding for one in card.supported_interfaces} == {"JSONRPC", "HTTP+JSON"}
    assert {one.url for one in card.supported_interfaces} == {f"{host.url}/a2a/%E7%81%AF%20%26%20co"}
    assert not card.signatures
    for binding in ("JSONRPC", "HTTP+JSON"):
        async with a2a_client(host.url, agent="%E7%81%AF%20%26%20co", binding=binding) as client:
            assert (await told(client, message("hello"))).texts == ["you said: hello"]
    await player(host, "hidden", enabled=False)
    async with httpx.AsyncClient(verify=NO_CERTIFICATES) as http:
        for name in ("hidden", "nobody", "%00"):
            answer = await http.get(f"{host.url}/a2a/{name}/.well-known/agent-card.json")
            assert answer.status_code in (400, 404), name
            assert "error" in answer.json()


async def test_the_extended_card_takes_a_key_and_has_the_skills(host: Served, binding: str) -> None:
    await player(host, metadata={"skills": SKILLS})
    async with a2a_client(host.url, binding=binding) as client:
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert [skill.name for skill in card.skills] == ["Lamps"]
    assert [skill.id for skill in (await card_of(host)).skills] == ["default"]
    async with a2a_client(host.url, "wrong", binding=binding) as client:
        with pytest.raises(Exception, match="401"):
            await client.get_extended_agent_card(GetExtendedAgentCardRequest())


@pytest.mark.gate("a2a-cards")
async def test_a_signature_is_verified_by_the_client_and_its_key_outlives_restarts(tmp_path: Path) -> None:
    async with playing(tmp_path, public_url=PUBLIC) as host:
        await player(host, metadata={"description": 'Sells lamps \u2028 \x07 "quoted" 卖灯 🙂'})
        before = await card_of(host)
        await verify(host, before)
        forged = AgentCard()
        forged.CopyFrom(before)
        forged.supported_interfaces[0].url = "https://evil.example/a2a/player"
        with pytest.raises(InvalidSignaturesError):
            await verify(host, forged)
        async with a2a_client(host.url) as client:
            await verify(host, await client.get_extended_agent_card(GetExtendedAgentCardRequest()))
    async with playing(tmp_path, public_url=PUBLIC) as host:
        await verify(host, before)
        await verify(host, await card_of(host))


@pytest.mark.gate("a2a-cards")
async def test_nobody_has_a_card_signed_that_names_another_address(tmp_path: Path, host: Served) -> None:
    forged = await card_of(host, Host="evil.example")
    assert not forged.signatures
    async with playing(tmp_path / "public", public_url=PUBLIC) as public:
        card = await card_of(public, Host="evil.example")
        assert all(one.url.startswith(f"{PUBLIC}/a2a/") for one in card.supported_interfaces)
        await verify(public, card)
