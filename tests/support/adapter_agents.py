"""The same agent in every framework, as a plugin with the adapter's own code, and the model service it asks.

The frameworks are installed once, as pinned, into a folder of this machine's cache.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import hostler_adapters
from hostler.domain.model_entries import ModelEntry
from support.cached_installs import lend_environments
from support.gates import Gate
from support.model_answers import Answer, Recorded, wishes
from support.model_server import ModelServer

PLUGINS = Path(__file__).with_name("plugins") / "adapters"
FRAMEWORKS = sorted(path.name for path in PLUGINS.iterdir() if (path / "hostler.yaml").exists())
RUNNER = "plugin:test/suite/default"
JOINS_MESSAGES = frozenset({"claude_agent"})
"""Frameworks that join messages of the user in a row, and pass on what arrives meanwhile as the system's."""
KEEPS_TOOL_MESSAGES = frozenset(FRAMEWORKS) - {"functions"}
"""Frameworks whose sessions hold the calls of tools of earlier turns."""


async def prepared(framework: str, folder: Path, data: Path) -> Path:
    """Return the folder of the plugin, and let a host over `data` use what is installed for it."""
    adapters = Path(hostler_adapters.__file__).parent
    sources = adapters.glob("*.py")
    await asyncio.to_thread(lend_environments, "adapters", PLUGINS / framework, data, *sources)
    ignored = shutil.ignore_patterns("__pycache__")
    plugin = shutil.copytree(PLUGINS / framework, folder / "plugin", ignore=ignored)
    shutil.copytree(adapters, plugin / "hostler_adapters", ignore=ignored)
    shutil.copy(PLUGINS / "price.py", plugin)
    return plugin


def model_entry(server: ModelServer) -> ModelEntry:
    """What the host knows of the service."""
    return ModelEntry(id="main", base_url=server.base_url, model="main", api_key="k", max_retries=0)


def agent_of(**fields: Any) -> dict[str, Any]:
    """The agent, as stored."""
    return {
        "name": "suite",
        "runner": RUNNER,
        "config": {"model": {"primary": "main"}},
        "resource_policy": {"allowed_tool_names": ["suite.*"], "allowed_model_ids": ["main"]},
        **fields,
    }


def answer_by_what_is_said(server: ModelServer, **gates: Gate) -> None:
    """Script the service. `first`: a gate before the wish for the tool; `middle`: one within each text.

    "price" asks for the host's tool, "prices" for two calls of it at once, "pay" for the agent's own; what
    follows a result repeats it; any other message is answered with the roles of the conversation.
    """

    def answer(request: Recorded) -> Answer:
        messages = request.json["messages"]
        held = [gates["middle"]] if "middle" in gates else []
        results = [text_of(one) for one in _after_last_answer(messages) if one["role"] == "tool"]
        last = text_of(messages[-1])
        if results:
            steered = "" if messages[-1]["role"] == "tool" else f" ({last})"
            return Answer(pieces=["Result: ", *held, f"{results[-1]}{steered}"])
        if last == "price":
            call = wishes(("call_price", offered(request, "suite_price"), {"thing": "lamp"}))
            call.hold = gates.get("first")
            return call
        if last == "prices":
            name = offered(request, "suite_price")
            return wishes(*((f"call_{thing}", name, {"thing": thing}) for thing in ("lamp", "desk")))
        if last == "pay":
            return wishes((f"call_pay_{len(messages)}", offered(request, "pay"), {"amount": 3}))
        roles = " ".join(one["role"] for one in messages if one["role"] != "system")
        return Answer(pieces=["I saw ", *held, roles])

    server.always(answer)


def offered(request: Recorded, name: str) -> str:
    """The name under which a framework offers a tool: some put that of its server before it."""
    names: list[str] = [tool["function"]["name"] for tool in request.json["tools"]]
    return next(one for one in names if one == name or one.endswith(f"__{name}"))


def _after_last_answer(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages after the last text of the assistant."""
    said = [n for n, one in enumerate(messages) if one["role"] == "assistant" and not one.get("tool_calls")]
    return messages[said[-1] + 1 :] if said else messages


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def asked(server: ModelServer) -> list[list[str]]:
    """The roles of each request, without instructions."""
    return [
        [one["role"] for one in request.json["messages"] if one["role"] != "system"]
        for request in server.requests
    ]


def as_event(text: str, conversation: str | None = "c1") -> dict[str, Any]:
    """A message for the agent."""
    event = {
        "event_type": "message.received",
        "agent": "suite",
        "input": {"text": text},
        "actor": {"actor_type": "user", "actor_id": "ada"},
    }
    return event if conversation is None else {**event, "conversation_id": conversation}


def configuration(plugin: Path, server: ModelServer) -> str:
    """The host's configuration file."""
    entry = {"id": "main", "base_url": server.base_url, "model": "main", "api_key": "k", "max_retries": 0}
    return json.dumps({"plugins": [{"path": str(plugin)}], "models": [entry], "agents": [agent_of()]})
