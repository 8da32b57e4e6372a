"""What is n8n's own."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from hostler_n8n.runner import N8n

from hostler_sdk.testing import Driven, drive
from support.local_agents import deltas
from support.services.n8n import PASSWORD, FakeN8n, event
from support.services.server import Answer, reply


async def ask(fake: FakeN8n, given: Any = "Hi", **config: Any) -> Driven:
    named = {name.replace("_", "-"): value for name, value in config.items()}
    whole = {
        "webhook-url": fake.address,
        "auth-type": "header",
        "header-name": "X-Key",
        "header-value": PASSWORD,
    }
    return await drive(N8n, given, config=whole | named)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"response": "R", "output": "O"}, "R"),
        ({"output": "O", "n": 1}, '{"output":"O","n":1}'),
        ({"response": {"深": [1]}}, '{"深":[1]}'),
        ([{"response": "first"}], "first"),
        ({"type": "text", "response": "R"}, "R"),
    ],
)
async def test_one_json_object_is_an_answer_without_a_stream(body: Any, text: str) -> None:
    async with FakeN8n() as fake:
        fake.next(reply(body))
        driven = await ask(fake)
        assert (driven.text, deltas(driven), driven.status) == (text, [], "completed")
        fake.next(reply({"output": "O"}))
        assert (await ask(fake, output_key="output")).text == "O"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"response": ""}', b"[]", b'{"response": null}'])
async def test_an_answer_with_nothing_in_it(body: bytes) -> None:
    async with FakeN8n() as fake:
        fake.next(Answer(body))
        assert (await ask(fake)).code == "n8n.empty_answer"


async def test_an_answer_is_over_when_each_node_is() -> None:
    two = [event("begin"), event("item", content="A"), event("end"), event("begin", "n-2")]
    rest = [event("item", "n-2", content="B"), event("end", "n-2")]
    async with FakeN8n() as fake:
        fake.next(Answer([*two, *rest]))
        assert (await ask(fake)).text == "AB"
        fake.next(Answer([*two, *rest[:1]]))
        assert (await ask(fake)).code == "n8n.stream_broken"
        fake.next(Answer([b"".join(two), b"".join(rest)[:30], b"".join(rest)[30:]]))
        assert (await ask(fake)).text == "AB"


async def test_basic_authentication() -> None:
    async with FakeN8n() as fake:
        sent = base64.b64encode("ada:pass:wörd".encode()).decode()
        fake.expected = {"authorization": f"Basic {sent}"}
        config = {"auth_type": "basic", "basic_username": "ada", "basic_password": "pass:wörd"}
        assert (await ask(fake, **config)).text == "ok"
        driven = await ask(fake, **config | {"basic_password": "another"})
        assert driven.code == "n8n.auth_error"
        assert driven.error == "n8n answered 403: Authorization data is wrong!; check config `basic-password`"
        assert (await ask(fake, **config | {"basic_username": "a:b"})).code == "n8n.config_invalid"


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
async def test_tokens_are_signed(algorithm: str) -> None:
    async with FakeN8n() as fake:
        fake.expected = {}
        config = {"auth_type": "jwt", "jwt_secret": "s3cret", "jwt_algorithm": algorithm}
        assert (await ask(fake, **config)).text == "ok"
        token = fake.asked[0].headers["authorization"].removeprefix("Bearer ")
        head, claims, signature = token.split(".")
        digest = hmac.new(b"s3cret", f"{head}.{claims}".encode(), f"sha{algorithm[2:]}").digest()
        assert base64.urlsafe_b64decode(signature + "==") == digest
        assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": algorithm, "typ": "JWT"}
        times = json.loads(base64.urlsafe_b64decode(claims + "=="))
        assert times["iat"] <= time.time() < times["exp"] <= times["iat"] + 300
        assert hashlib.new(f"sha{algorithm[2:]}").digest_size == len(digest)


async def test_a_webhook_that_is_not_there() -> None:
    async with FakeN8n() as fake:
        driven = await ask(fake, webhook_url=fake.base + "/webhook/other?x=1")
        assert driven.code == "n8n.http_error"
        assert 'The requested webhook "/webhook/other" is not registered; ' in str(driven.error)
        for name in ("Content-Length", "X Key", "X:Key"):
            assert (await ask(fake, header_name=name)).code == "n8n.config_invalid"


async def test_files_by_address_are_refused() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://pics.example.com/cat.png"}}
    async with FakeN8n() as fake:
        driven = await ask(fake, {"text": "See", "contents": [picture]})
        assert (driven.code, "cat.png: files for n8n" in str(driven.error)) == ("n8n.file_invalid", True)
