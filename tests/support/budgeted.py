"""Steps of runs with budgets: calls that are counted, and questions to a model with a price."""

from __future__ import annotations

from typing import Any

from hostler.domain.model_bounds import input_bound
from hostler.domain.model_entries import ModelEntry, Price
from hostler_protocol.content import ModelMessage
from support.model_server import ModelServer
from support.stepping import Ended, Stage

PLACE: dict[str, Any] = {"actor": {"actor_id": "u"}}
READ = ["call", "state.get", {"scope": "actor", "key": "k"}]
SET = ["call", "state.set", {"scope": "actor", "key": "k", "value": 1}]
QUESTION: dict[str, Any] = {
    "model_id": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "extra_args": {"max_tokens": 7},
}
ASK = ["call", "model.invoke", QUESTION]
INPUT = input_bound([ModelMessage(role="user", content="hi")], (), {"max_tokens": 7}, ModelEntry(id="m"), {})
"""The tokens of the question at most."""
TOKENS = 18
"""What the model server says that one answer took: 11 in, 7 out."""
COST = 11.0
"""At the price below."""


async def model(host: Stage, server: ModelServer) -> None:
    server.always("ok")
    price = Price(input=1_000_000.0, output=0.0)
    await host.models(ModelEntry(id="m", base_url=server.base_url, model="x", price=price))


def codes(ended: Ended) -> list[str]:
    """Of each call: ok, or what it was refused with."""
    return [answer["error"]["code"] if "error" in answer else "ok" for answer in ended.told]
