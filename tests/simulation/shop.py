"""A simulated shop, whose operations are tools: by an OpenAPI document that it serves itself."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hostler.simulation.network import SimulatedNetwork
from simulation.http_service import Answer, Asked, HttpService
from simulation.outside import Outside

NAME = "shop"
KEY_NAME = "HOSTLER_SIMULATED_SHOP_KEY"
KEY = "the-key-of-the-shop"
os.environ[KEY_NAME] = KEY
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
QUERY = {"name": "text", "in": "query", "required": True, "schema": {"type": "string"}}
EFFECT_KEY = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}


def _operation(name: str, *parameters: Any, body: bool = True) -> dict[str, Any]:
    spec: dict[str, Any] = {"operationId": name, "summary": name, "parameters": list(parameters)}
    if body:
        spec["requestBody"] = {"required": True, "content": {"application/json": {"schema": TEXT}}}
    return {**spec, "responses": {"200": {"description": "done"}}}


DOCUMENT = json.dumps(
    {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": f"https://{NAME}.example"}],
        "security": [{"key": []}],
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "paths": {
            "/see": {"get": _operation("see", QUERY, body=False)},
            "/order": {"post": _operation("order", EFFECT_KEY)},
            "/take": {"post": _operation("take")},
        },
    }
).encode()
DIGEST = f"sha256:{hashlib.sha256(DOCUMENT).hexdigest()}"


class Shop(HttpService):
    """`see` is pure, `order` has an idempotency key, `take` has none: it may be made once.

    The texts of requests begin with the run.
    """

    def __init__(self, out: Outside, network: SimulatedNetwork) -> None:
        super().__init__(out, network, NAME)

    def answer(self, asked: Asked) -> Answer:
        """Do what is asked, once per key."""
        address = urlsplit(asked.path)
        if address.path == "/openapi.json":
            return Answer(DOCUMENT)
        if address.path == "/see":
            text = parse_qs(address.query)["text"][0]
        else:
            text = json.loads(asked.body)["text"]
        name, key = address.path.removeprefix("/"), asked.headers.get("idempotency-key")
        return Answer(json.dumps(effect_of(self.out, name, text, key)).encode())


def effect_of(out: Outside, name: str, text: str, key: str | None) -> Any:
    """Have the effect of an operation, under a key only once."""
    run, once = text.partition(" ")[0], key is not None
    return out.carry_out(tool=name, key=key or text, run=run, call=text, text=text, once=once)
