"""A simulated service of models that speaks OpenAI's protocol. What it answers is paid, whoever hears it."""

from __future__ import annotations

import json
import os
from typing import Any

from hostler.domain.model_entries import ModelEntry
from hostler.egress import EgressPolicy, Guard, GuardedTransport
from hostler.models.catalog import Build, Built, openai_model
from hostler.simulation.network import SimulatedNetwork
from simulation.http_service import Answer, Asked, HttpService
from simulation.outside import Outside

NAME = "models"
URL = f"https://{NAME}.example/v1"
KEY_NAME = "HOSTLER_SIMULATED_KEY"
KEY = "sk-known-to-both-sides"
os.environ[KEY_NAME] = KEY
PRICE = {"input": 1.0, "output": 3.0}
"""Per million tokens."""
INPUT_TOKENS = 7
PIECE_CHARS = 9


def build_with(network: SimulatedNetwork) -> Build:
    """Return how a host builds the product's own client on a network."""

    def build(entry: ModelEntry, key: str | None) -> Built:
        transport: Any = GuardedTransport(Guard(EgressPolicy(), network))
        return openai_model(entry, key, transport)

    return build


class ModelService(HttpService):
    """Answers each question with itself and a number: no two answers are alike."""

    def __init__(self, out: Outside, network: SimulatedNetwork) -> None:
        super().__init__(out, network, NAME)

    def arrived(self, asked: Asked) -> None:
        """Take note of the question, and of when it was asked: it may arrive long after another one."""
        question, by = _question(asked), asked.by.name
        self.out.note("asked", question=question, number=asked.number, by=by, sent=asked.sent_at)

    def answer(self, asked: Asked) -> Answer:
        """Answer, whole or piece by piece."""
        question = _question(asked)
        text = f"{question}#{asked.number}"
        usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": len(text)}
        self.out.note("paid", question=question, number=asked.number, input=INPUT_TOKENS, output=len(text))
        said = {"id": f"a{asked.number}", "model": "m", "usage": usage}
        calls = _calls(json.loads(asked.body), asked.number)
        reason = "tool_calls" if calls else "stop"
        if not json.loads(asked.body).get("stream"):
            message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return Answer(json.dumps({**said, "choices": [choice]}).encode())
        pieces = [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]
        chunks: list[dict[str, Any]] = [{"choices": [_choice({"content": piece}, None)]} for piece in pieces]
        for number, call in enumerate(calls):
            chunks.append({"choices": [_choice({"tool_calls": [{"index": number, **call}]}, None)]})
        chunks += [{"choices": [_choice({}, reason)]}, {**said, "choices": []}]
        lines = [*(json.dumps(chunk) for chunk in chunks), "[DONE]"]
        sent = tuple(f"data: {line}\n\n".encode() for line in lines)
        return Answer(pieces=sent, kind="text/event-stream")


def _choice(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}


def _question(asked: Asked) -> str:
    return str(json.loads(asked.body)["messages"][-1]["content"])


def _calls(body: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return the calls of the next round that the newest message asks for: "NAME: TOOL TOOL, TOOL"."""
    messages, offered = body["messages"], [one["function"]["name"] for one in body.get("tools", [])]
    last = max((at for at, one in enumerate(messages) if one["role"] == "user"), default=None)
    if last is None or not offered:
        return []
    name, _, asked = _text(messages[last]["content"]).partition(": ")
    rounds = [tools.split() for tools in asked.split(", ") if tools]
    done = sum(bool(one.get("tool_calls")) for one in messages[last:])
    if done >= len(rounds):
        return []
    calls = []
    for at, tool in enumerate(rounds[done]):
        function = next((one for one in offered if one.endswith(tool)), tool)
        arguments = json.dumps({"text": f"{name}.{done}.{at}"})
        call = {"name": function, "arguments": arguments}
        calls.append({"id": f"call{number}_{at}", "type": "function", "function": call})
    return calls


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content)
    return str(content)
