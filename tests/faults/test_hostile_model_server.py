"""A hostile model server: whatever it answers is an answer or a typed error of its call, within bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.model_entries import ModelEntry
from hostler_protocol.errors import ERROR_CODES
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
    head,
    nested,
    raw,
    silence,
    whole,
)
from support.listening import Asked, Listening
from support.stepping import stage

pytestmark = [pytest.mark.gate("hostile-peers"), pytest.mark.timeout(300)]
KEY = "sk-canary-5d1f0c1e2b3a4958"
CONFIG = {"model": {"primary": "m", "fallbacks": []}, "timeout": 10}


@dataclass
class ModelPeer(Listening):
    """A service that answers everything in one way."""

    says: Answer | None = None
    asked: list[Asked] = field(default_factory=list)

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        self.asked.append(asked)
        assert self.says is not None
        await self.says(asked, writer)
        return False


@dataclass
class ModelAttack:
    """A host with one model, of a hostile service."""

    host: Attacked
    peer: ModelPeer

    async def ask(self, method: str) -> dict[str, Any]:
        """Ask the model in a run, beside an honest one; the reply or error that the runner got."""
        messages = {"messages": [{"role": "user", "content": "hi"}], "model_id": "m"}
        steps: list[list[Any]] = [["call", f"model.{method}", messages], ["tell"]]
        ended, _ = await asyncio.gather(self.host.made.run(steps), self.host.honest())
        if ended.record.status == "timeout":  # what drips is bounded by the run's deadline
            return {"error": {"code": "deadline_exceeded", "message": "m"}}
        assert ended.record.status == "completed", ended.last
        return dict(ended.told[0])


@asynccontextmanager
async def under_attack(tmp_path: Path, *, timeout: float = 5.0) -> AsyncIterator[ModelAttack]:
    async with (
        asyncio.timeout(SECONDS),
        ModelPeer() as peer,
        stage(tmp_path / "data", agent=False) as made,
        attacked_with(made, tmp_path, peer, timeout) as host,
    ):
        yield ModelAttack(host, peer)


@asynccontextmanager
async def attacked_with(
    made: Any, tmp_path: Path, peer: ModelPeer, timeout: float
) -> AsyncIterator[Attacked]:
    url = f"http://127.0.0.1:{peer.port}/v1"
    model = ModelEntry(id="m", base_url=url, api_key=KEY, timeout=timeout, max_retries=1)
    await made.models(model)
    await made.agent(config=CONFIG)
    async with attacked(made, tmp_path / "data") as host:
        yield host


def chunk(**delta: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def events(*values: Any, end: bool = True) -> bytes:
    lines = [b"data: " + (value if isinstance(value, bytes) else encode(value)) + b"\n\n" for value in values]
    return b"".join(lines) + (b"data: [DONE]\n\n" if end else b"")


def stream(body: bytes, **headers: str) -> Answer:
    return whole(body, **{"content_type": "text/event-stream", **headers})


def reply(**message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]}


def call(name: Any, arguments: Any = "{}", number: int = 0) -> dict[str, Any]:
    return {
        "index": number,
        "id": f"c{number}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


EVENTS = "text/event-stream"
ATTACKS: dict[str, Callable[[], Answer]] = {
    "no HTTP at all": lambda: raw(b"\x00\x01\x02" * 1000),
    "a head without an end": lambda: raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 500_000),
    "silence": silence,
    "a body that drips": lambda: drip(b" "),
    "a body without an end": lambda: flood(b'{"a":"', b"a" * MIB),
    "a body that claims to be longer than it is": lambda: raw(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n{}"
    ),
    "chunks of a size that no number holds": lambda: raw(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"f" * 100 + b"\r\n{}"
    ),
    "a bomb that was not asked for": lambda: whole(bomb(512 * MIB), content_encoding="gzip"),
    "JSON that is nested without an end": lambda: whole(nested(1_000_000)),
    "text that is no UTF-8": lambda: whole(b'{"choices":[{"message":{"content":"\xff\xfe"}}]}'),
    "numbers that JSON does not have": lambda: whole(b'{"choices": NaN, "usage": Infinity}'),
    "usage below nothing and beyond everything": lambda: whole(
        encode({**reply(content="x"), "usage": {"prompt_tokens": -5, "completion_tokens": 10**400}})
    ),
    "choices of every type": lambda: whole(encode({"choices": {"0": [1, None, {"message": 3}]}})),
    "an error that repeats the key": lambda: whole(
        encode({"error": {"message": f"key {KEY} \x1b[2J" + "x" * 1_000_000}}), "401 Unauthorized"
    ),
    "an error without an end": lambda: flood(b'{"error":"', b"a" * MIB),
    "a redirect to the metadata service": lambda: whole(
        b"", "307 Temporary Redirect", location="http://169.254.169.254/latest"
    ),
    "come back in a thousand years": lambda: whole(b"{}", "429 Too Many Requests", retry_after="99999999999"),
    "thousands of tool calls": lambda: whole(
        encode(reply(tool_calls=[call("a", number=number) for number in range(20_000)]))
    ),
    "a tool call that commands a terminal": lambda: whole(
        encode(reply(content=None, tool_calls=[call("\x1b]0;x\x07\u202e../exec", '{"a": "\\u0000"}')]))
    ),
    "arguments that are nested without an end": lambda: whole(
        encode(reply(tool_calls=[call("a", nested(50_000).decode())]))
    ),
    "a promise to upgrade": lambda: raw(
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n" + b"\0" * 1000
    ),
    "interim answers without an end": lambda: raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 50_000),
    "a line of a stream without an end": lambda: flood(b"data: ", b"a" * MIB, content_type=EVENTS),
    "comments without an end": lambda: flood(b"", b": wait\n\n" * 10_000, content_type=EVENTS),
    "pieces without an end": lambda: flood(
        b"", events(chunk(content="a" * 50_000), end=False), content_type=EVENTS
    ),
    "empty pieces without an end": lambda: flood(
        b"", events(chunk(content=""), end=False) * 1_000, content_type=EVENTS
    ),
    "pieces of tool calls at impossible places": lambda: stream(
        events(chunk(tool_calls=[call("a", number=10**9)]), chunk(tool_calls=[call("b", number=-1)]))
    ),
    "pieces after the end": lambda: stream(events(chunk(content="a")) + events(chunk(content="b")) * 100),
    "a stream that says nothing": lambda: stream(b"data: [DONE]\n\n"),
}


@pytest.mark.parametrize("method", ["invoke", "stream"])
@pytest.mark.parametrize("name", ATTACKS)
async def test_an_answer_that_is_an_attack_is_an_answer_or_an_error(
    name: str, method: str, tmp_path: Path
) -> None:
    async with under_attack(tmp_path) as attack:
        attack.peer.says = ATTACKS[name]()
        told = await attack.ask(method)
        text = json.dumps(told)
        assert KEY not in text
        assert len(text) < 8 * MIB
        if "error" in told:
            assert told["error"]["code"] in ERROR_CODES
            assert "m" in told["error"]["message"]
            assert len(told["error"]["message"]) < 5_000
        assert len(attack.peer.asked) <= 3, "a hostile answer is not asked for again and again"
        assert not any(KEY in line for line in attack.host.log)


async def test_it_links_no_calls_by_cookies(tmp_path: Path) -> None:
    """A client of a model serves all workspaces."""
    async with under_attack(tmp_path) as attack:

        async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
            cookies = "".join(f"set-cookie: c{n}=x; Path=/\r\n" for n in range(200)).encode()
            start = head(content_type="application/json").removesuffix(b"\r\n")
            writer.write(start + cookies + b"\r\n" + encode(reply(content="x")))

        attack.peer.says = answer
        for _ in range(2):
            assert "error" not in await attack.ask("invoke")
        assert not any("cookie" in asked.headers for asked in attack.peer.asked)
