"""local-agent in tests: what came of a driven run, and a scripted host whose models are real services."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hostler.domain.model_entries import ModelEntry
from hostler.models.catalog import ModelCatalog, build_catalog
from hostler.models.port import ModelRequest
from hostler_protocol.calls import CountTokensParams, CountTokensReply, ModelParams, ModelReply
from hostler_protocol.content import FunctionCall, ModelMessage, ToolCall
from hostler_protocol.errors import HostlerError
from hostler_sdk import tool
from hostler_sdk.errors import host_error
from hostler_sdk.scripted import HostCall, HostSession
from hostler_sdk.testing import Driven, ScriptedHost
from support.model_server import ModelServer

FOLDER = Path(__file__).parents[2] / "runners" / "local-agent"
MAIN: dict[str, Any] = {"model": {"primary": "main"}}
BOTH: dict[str, Any] = {"model": {"primary": "main", "fallbacks": ["spare"]}}
BOUND_SECONDS = 110.0
"""For a whole test, on a machine that is busy with others."""
CHECKPOINT = "runner.compaction.checkpoint"


def deltas(driven: Driven) -> list[str]:
    return [result.data.chunk.content for result in driven.results if result.type == "message.delta"]  # type: ignore


def logs(driven: Driven) -> str:
    return "\n".join(result.data.text for result in driven.results if result.type == "log")  # type: ignore


def requests(driven: Driven) -> list[Any]:
    """The parameters of the model calls."""
    return [c.params for c in driven.calls if c.method in ("model.invoke", "model.stream")]


def asked(driven: Driven, place: int = -1) -> list[tuple[str, Any]]:
    return [(m.role, m.content) for m in requests(driven)[place].messages]


def made(driven: Driven) -> list[tuple[str, dict[str, Any]]]:
    """The tool calls, in the order in which the host was asked."""
    return [(c.params.tool_name, c.params.parameters) for c in driven.calls if c.method == "tool.call"]


def tool_messages(driven: Driven, place: int = -1) -> list[tuple[str | None, Any]]:
    """The tool messages of a request: id and text."""
    return [(m.tool_call_id, m.content) for m in requests(driven)[place].messages if m.role == "tool"]


def telemetry(driven: Driven) -> list[tuple[str, str | None]]:
    """Beginning and end of tool calls in the journal: what happened, and to which."""
    return [
        (result.type.removeprefix("tool.call."), result.data.tool_call_id)  # type: ignore[union-attr]
        for result in driven.results
        if result.type.startswith("tool.call.")
    ]


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def answer(text: str, finish_reason: str = "stop") -> ModelReply:
    return ModelReply(message=ModelMessage(role="assistant", content=text), finish_reason=finish_reason)


def wish(name: str, arguments: str = "{}", id_: str = "call_1") -> ToolCall:
    return ToolCall(id=id_, function=FunctionCall(name=name, arguments=arguments))


def wishes(*calls: ToolCall, text: str = "") -> ModelMessage:
    """An answer that asks for tools."""
    return ModelMessage(role="assistant", content=text or None, tool_calls=list(calls))


class ServedModels(HostSession):
    """A scripted host whose models are those of a catalog."""

    catalog: ClassVar[ModelCatalog]

    async def _answer_call(self, id_: Any, call: HostCall, given: Any) -> None:
        try:
            match call.params:
                case ModelParams():
                    await self._answer_model(id_, call.params, given)
                case CountTokensParams(model_id=model_id, messages=messages, tools=tools):
                    counted = await self.catalog.get(model_id).provider.count_tokens(messages, tools)
                    self._write(self.link.reply(id_, CountTokensReply(input_tokens=counted.input_tokens)))
                case _:
                    await super()._answer_call(id_, call, given)
        except HostlerError as error:
            call.error = host_error(error)
            self._write(self.link.refuse(id_, error))

    async def _answer_model(self, id_: Any, params: ModelParams, given: Any) -> None:
        request = ModelRequest(
            params.messages,
            tools=params.tools,
            extra_args=params.extra_args,
            deadline=given.runtime.deadline_at,
        )
        provider = self.catalog.get(params.model_id).provider
        async with contextlib.aclosing(provider.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelReply):
                    self._write(self.link.reply(id_, piece))
                else:
                    self._write(self.link.stream(id_, piece))


def served(
    monkeypatch: pytest.MonkeyPatch, test: Callable[[ModelServer, ScriptedHost], Awaitable[None]]
) -> None:
    """Run a test with models `main` and `spare` of one service on a socket."""
    monkeypatch.setattr("hostler_sdk.testing.HostSession", ServedModels)
    monkeypatch.setattr("hostler.models.retry_policy.FIRST_BACKOFF_SECONDS", 0.001)

    async def main() -> None:
        async with asyncio.timeout(BOUND_SECONDS), ModelServer() as server:
            entries = [ModelEntry(id=name, base_url=server.base_url) for name in ("main", "spare")]
            ServedModels.catalog = build_catalog(entries)
            await test(server, ScriptedHost(models={"main": "", "spare": ""}))
            await ServedModels.catalog.close()

    asyncio.run(main())
