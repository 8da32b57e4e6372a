"""The card of an agent: what it is, where it is, and how to speak with it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from hostler.domain.agents import Agent
from hostler.http.a2a.card_signature import JWKS_PATH, card_key
from hostler.http.a2a.dialect import AgentNotFoundError
from hostler.http.a2a.extensions import extensions
from hostler.http.a2a.wire import PROTOCOL_VERSION
from hostler.http.auth import require_right
from hostler.http.request import ApiRequest
from hostler.storage.stores import agents
from hostler_protocol._base import Lenient

CARD_PATH = "/.well-known/agent-card.json"
MAX_SKILLS = 100
_MODES = ["text/plain", "application/json"]
_SCHEME = "key"


class Skill(Lenient):
    """One entry of `skills` in the metadata of an agent."""

    id: str
    name: str
    description: str = ""
    tags: list[str] = []
    examples: list[str] = []


async def open_card(request: ApiRequest, name: str) -> dict[str, Any]:
    """Return the card of an agent of the host's own workspace, for anybody. AgentNotFoundError."""
    return await _card(request, request.state.host.settings.workspace, name, is_extended=False)


async def extended_card(request: ApiRequest, name: str) -> dict[str, Any]:
    """Return the card of an agent for a caller with a key: with the skills in its metadata."""
    require_right(request.caller, "events:write")
    return await _card(request, request.workspace_id, name, is_extended=True)


async def _card(request: ApiRequest, workspace: str, name: str, *, is_extended: bool) -> dict[str, Any]:
    agent = None
    if "\x00" not in name:
        agent = await request.state.host.db.read(lambda tx: agents.readable(tx, workspace, name))
    if agent is None or not agent.spec.enabled:
        raise AgentNotFoundError(name)
    base = request.base
    card = card_of(agent, base, is_extended=is_extended)
    # with any other address a client could have a card signed that names a server of its own
    if request.state.host.settings.public_url is not None and (key := await card_key(request)) is not None:
        card["signatures"] = [key.sign(card, base + JWKS_PATH)]
    return card


def card_of(agent: Agent, base: str, *, is_extended: bool) -> dict[str, Any]:
    """Return the card of an agent. `base`: the address of the host."""
    url = f"{base}/a2a/{quote(agent.name, safe='')}"
    description = agent.spec.metadata.get("description")
    text = description if isinstance(description, str) and description else f"The agent {agent.name}."
    default = Skill(id="default", name=agent.name, description=text, tags=["agent"])
    skills = (_skills(agent) if is_extended else []) or [default]
    return {
        "name": agent.name,
        "description": text,
        "version": str(agent.version),
        "supportedInterfaces": [
            {"url": url, "protocolBinding": binding, "protocolVersion": PROTOCOL_VERSION}
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
        "capabilities": {
            "streaming": True,
            "pushNotifications": True,
            "extendedAgentCard": True,
            "extensions": extensions(),
        },
        "securitySchemes": {_SCHEME: {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {_SCHEME: {"list": []}}}],
        "defaultInputModes": [*_MODES, "image/*", "application/octet-stream"],
        "defaultOutputModes": [*_MODES, "application/octet-stream"],
        "skills": [msgspec.to_builtins(skill) for skill in skills],
    }


def _skills(agent: Agent) -> list[Skill]:
    """Return the skills in the metadata of an agent; none if they cannot be read."""
    try:
        return msgspec.convert(agent.spec.metadata.get("skills", []), list[Skill])[:MAX_SKILLS]
    except msgspec.ValidationError:
        return []
