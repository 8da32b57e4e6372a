"""A hostile OpenAPI document, and the service behind one: no place but its own, and no bound passed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.domain.tool_entries import ToolEntry
from hostler.host.config import ConfigFile
from hostler.tools.openapi.source import OpenApiStatus
from hostler_protocol.errors import HostlerError
from support.hostile_peers import (
    MIB,
    SECONDS,
    Answer,
    Attacked,
    attacked,
    bomb,
    drip,
    encode,
    flood,
    nested,
    raw,
    silence,
    whole,
)
from support.listening import Asked, Listening
from support.stepping import WORKSPACE, stage

pytestmark = [pytest.mark.gate("hostile-peers"), pytest.mark.timeout(300)]
KEY = "canary-openapi-2c90"


@dataclass
class Service(Listening):
    """The service of a document, which answers everything in one way."""

    says: Answer = field(default_factory=lambda: whole(b'{"ok": true}'))
    asked: list[Asked] = field(default_factory=list)

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        self.asked.append(asked)
        await self.says(asked, writer)
        return False


def document(**changes: Any) -> dict[str, Any]:
    """A document with one honest operation, `ok`."""
    known: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "peer", "version": "1"},
        "servers": [{"url": "/"}],
        "paths": {"/ok": {"get": {"operationId": "ok", "responses": {"200": {"description": "ok"}}}}},
    }
    return known | changes


def operation(path: str = "/bad", *, schema: Any = None, name: str = "bad", **more: Any) -> dict[str, Any]:
    """The paths of a document: the honest operation, and this one."""
    bad: dict[str, Any] = {"operationId": name, "responses": {"200": {"description": "x"}}, **more}
    if schema is not None:
        bad["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return {**document()["paths"], path: {"post": bad}}


@dataclass
class DocumentAttack:
    """A host, and a document whose service is `service`."""

    host: Attacked
    service: Service
    folder: Path

    async def configure(self, text: bytes, suffix: str = "json", **entry: Any) -> str | None:
        """Configure the document; return why it is refused, or its problem."""
        file = self.folder / f"document.{suffix}"
        file.write_bytes(text)
        given = {
            "base_url": f"http://127.0.0.1:{self.service.port}/",
            "network": [f"127.0.0.1:{self.service.port}"],
            "seconds": 5.0,
            **entry,
        }
        made = OpenApiEntry(name="peer", document=str(file), **given)
        try:
            await self.host.made.host.apply(ConfigFile(tools=[ToolEntry(openapi=made)]), actor="test")
        except HostlerError as error:
            return error.message
        await self.host.made.agent(resource_policy={"allowed_tool_names": ["*"]})
        return self.status().problem

    def status(self) -> OpenApiStatus:
        _, openapi = self.host.made.host.web
        return openapi.documents(WORKSPACE)[0]

    def names(self) -> set[str]:
        _, openapi = self.host.made.host.web
        offered = openapi.offered(WORKSPACE).values()
        return {tool.resource.tool_name.removeprefix("peer.") for tool in offered if tool.problem is None}


@asynccontextmanager
async def under_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DocumentAttack]:
    monkeypatch.setenv("HOSTILE_OPENAPI_KEY", KEY)
    async with (
        asyncio.timeout(SECONDS),
        Service() as service,
        stage(tmp_path / "data") as made,
        attacked(made, tmp_path / "data") as host,
    ):
        yield DocumentAttack(host, service, tmp_path)
        assert not any(KEY in line for line in host.log)


ALIASES = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(12)
)
DOCUMENTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "aliases that repeat each other a billion times": (lambda: ALIASES, "yaml"),
    "nested without an end": (lambda: b'{"openapi":"3.1.0","x":' + nested(200_000) + b"}", "json"),
    "nested YAML": (lambda: b"openapi: 3.1.0\nx: " + b"[" * 20_000, "yaml"),
    "larger than any": (lambda: b'{"openapi":"3.1.0","x":"' + b"a" * (17 * MIB) + b'"}', "json"),
    "YAML that makes objects": (lambda: b'!!python/object/apply:os.system ["touch /tmp/x"]', "yaml"),
    "text that is no UTF-8": (lambda: b'{"openapi": "3.1.0", "info": "\xff\xfe"}', "json"),
    "no document": (lambda: b"\x00\x01\x02", "json"),
    "more operations than anybody reads": (
        lambda: encode(document(paths={f"/{n}": operation()["/bad"] for n in range(6_000)})),
        "json",
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_a_document_that_is_a_bomb_is_refused_with_a_reason(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, suffix = DOCUMENTS[name]
    async with under_attack(tmp_path, monkeypatch) as attack:
        why = await attack.configure(make(), suffix)
        assert why, "it was taken"
        assert len(why) < 5_000
        assert not attack.names()
        assert not attack.service.asked


SCHEMAS: dict[str, Any] = {
    "a circle": {"$ref": "#/components/schemas/a"},
    "a reference to a file": {"$ref": "file:///etc/passwd"},
    "a reference elsewhere": {"$ref": "http://169.254.169.254/latest/meta-data"},
    "a reference to nothing": {"$ref": "#/components/schemas/nothing"},
    "a pattern that takes for ever": {
        "type": "object",
        "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}},
    },
    "more branches than anybody tries": {"anyOf": [{"required": [f"p{n}"]} for n in range(5_000)]},
    "names that command a terminal": {"type": "object", "properties": {"\x1b[2J\u202e": {"type": "string"}}},
}


@pytest.mark.parametrize("name", SCHEMAS)
async def test_a_schema_that_is_a_bomb_costs_its_operation_and_no_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    circle = {"a": {"$ref": "#/components/schemas/b"}, "b": {"$ref": "#/components/schemas/a"}}
    async with under_attack(tmp_path, monkeypatch) as attack:
        whole_document = document(paths=operation(schema=SCHEMAS[name]), components={"schemas": circle})
        await attack.configure(encode(whole_document))
        assert "ok" in attack.names()
        began = asyncio.get_running_loop().time()
        if "bad" in attack.names():
            await attack.host.call(
                "peer.bad", {"text": "a" * 5_000 + "!", "body": {"text": "a" * 5_000 + "!"}}
            )
        told = await attack.host.call("peer.ok")
        assert told["result"]["status"] == 200
        assert asyncio.get_running_loop().time() - began < 40


PLACES: dict[str, dict[str, Any]] = {
    "the metadata service": {"servers": [{"url": "http://169.254.169.254/"}]},
    "this machine": {"servers": [{"url": "http://127.0.0.1:22/"}]},
    "a number that is this machine": {"servers": [{"url": "http://2130706433/"}]},
    "a file": {"servers": [{"url": "file:///etc/"}]},
    "another protocol": {"servers": [{"url": "gopher://127.0.0.1/"}]},
    "an address with a password": {"servers": [{"url": "http://user:pass@127.0.0.1/"}]},
    "variables that lead elsewhere": {
        "servers": [{"url": "http://{host}/", "variables": {"host": {"default": "169.254.169.254"}}}]
    },
    "a server of one operation": {
        "paths": operation(servers=[{"url": "http://169.254.169.254/"}]),
        "servers": [{"url": "http://[::1]/"}],
    },
}


@pytest.mark.parametrize("name", PLACES)
async def test_a_document_sends_requests_nowhere_but_where_its_entry_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with under_attack(tmp_path, monkeypatch) as attack:
        text = encode(document(**PLACES[name]))
        why = await attack.configure(text, base_url=None, network=[])
        for tool in attack.names():
            told = await attack.host.call(f"peer.{tool}")
            assert "error" in told, told
        assert why or attack.names() is not None
        assert not attack.service.asked


REQUESTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a path that leads out": (operation("/../../{id}/x"), {"id": "../../admin"}),
    "a path that is an address": (operation("//evil.example/{id}"), {"id": "x"}),
    "an argument that leads out": (
        operation(
            "/things/{id}",
            parameters=[{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        ),
        {"id": "../../admin?x=1#y"},
    ),
    "an argument that ends the header": (
        operation(parameters=[{"name": "X-Thing", "in": "header", "schema": {"type": "string"}}]),
        {"X-Thing": "a\r\nHost: evil.example\r\n\r\nGET /admin"},
    ),
    "an argument that is the host": (
        operation(
            parameters=[
                {"name": name, "in": "header", "schema": {"type": "string"}}
                for name in ("Host", "Authorization", "Content-Length", "Transfer-Encoding", "Connection")
            ]
        ),
        {"Host": "evil.example", "Authorization": "Bearer stolen", "Content-Length": "0"},
    ),
    "a cookie of two": (
        operation(parameters=[{"name": "c", "in": "cookie", "schema": {"type": "string"}}]),
        {"c": "a; admin=1"},
    ),
    "a query of two": (
        operation(parameters=[{"name": "q", "in": "query", "schema": {"type": "string"}}]),
        {"q": "a&admin=1"},
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_no_argument_leaves_its_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, arguments = REQUESTS[name]
    async with under_attack(tmp_path, monkeypatch) as attack:
        await attack.configure(encode(document(paths=paths)))
        assert "ok" in attack.names()
        if "bad" in attack.names():
            await attack.host.call("peer.bad", arguments)
        for asked in attack.service.asked:
            assert asked.headers["host"] == f"127.0.0.1:{attack.service.port}"
            assert "stolen" not in str(asked.headers)
            assert "evil.example" not in str(asked.headers)
            assert ".." not in asked.path.partition("?")[0].split("/")
            assert "admin=1" not in asked.path.replace("%26", "")
            assert "; admin=1" not in asked.headers.get("cookie", "")
            assert asked.method == "POST"
        assert len(attack.service.asked) <= 1


ANSWERS: dict[str, Callable[[], Answer]] = {
    "no HTTP at all": lambda: raw(b"\x00\xff" * 5_000),
    "a head without an end": lambda: raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 500_000),
    "silence": silence,
    "a body that drips": lambda: drip(b"x"),
    "a body without an end": lambda: flood(b'"', b"a" * MIB),
    "a bomb": lambda: whole(bomb(512 * MIB), content_encoding="gzip"),
    "JSON that is nested without an end": lambda: whole(nested(1_000_000)),
    "text that is no UTF-8": lambda: whole(b'{"a": "\xff\xfe"}'),
    "a redirect to the metadata service": lambda: whole(
        b"", "307 Temporary Redirect", location="http://169.254.169.254/latest"
    ),
    "an error that repeats the key": lambda: whole(KEY.encode() * 1_000, "500 Oops"),
    "come back in a thousand years": lambda: whole(b"", "429 Too Many Requests", retry_after="99999999999"),
    "a type that commands": lambda: whole(b"\x1b[2J", content_type='text/html; x="\x1b[2J"'),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_that_is_an_attack_is_a_bounded_result_or_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with under_attack(tmp_path, monkeypatch) as attack:
        scheme = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
        text = encode(document(components={"securitySchemes": scheme}, security=[{"key": []}]))
        auth = {"key": "env:HOSTILE_OPENAPI_KEY"}
        assert await attack.configure(text, response_kib=256, auth=auth) is None
        attack.service.says = ANSWERS[name]()
        told = json.dumps(await attack.host.call("peer.ok"))
        assert KEY not in told
        assert len(told) < MIB
        assert attack.service.asked
        assert len(attack.service.asked) <= 3


async def test_names_that_shadow_or_command_are_made_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["ok", "OK", "../../x", "x\x1b[2J", "x\u202ey", "", " ", "x" * 500, "skill.x", "exec"]
    async with under_attack(tmp_path, monkeypatch) as attack:
        paths = {f"/{n}": {"post": operation(name=name)["/bad"]["post"]} for n, name in enumerate(names)}
        await attack.configure(encode(document(paths={**document()["paths"], **paths})))
        found = attack.names()
        assert "ok" in found
        assert all(
            name.isascii() and name.isprintable() and len(name) <= 64 and "/" not in name for name in found
        )
        told = await attack.host.call("peer.ok")
        assert told["result"]["status"] == 200
        assert [asked.path for asked in attack.service.asked] == ["/ok"], "the first of a name has it"
