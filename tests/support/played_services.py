"""Played parts of an attempt: its runner, tools, knowledge and a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from hostler.domain.model_entries import ModelEntry
from hostler.domain.tool_pins import ToolPin
from hostler.models.port import ModelProvider, ModelRequest
from hostler.tools.errors import ToolChangedError
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler_protocol.calls import ModelChunk, ModelDelta, ModelReply, RetrieveReply
from hostler_protocol.content import ModelMessage, Usage
from hostler_protocol.errors import HostlerError
from hostler_protocol.frames import MessageId
from hostler_protocol.grants import KnowledgeBaseResource, ToolResource
from support.gates import Bell, Gate


class Runner:
    """The runner's side of its calls: the answers that it gets, in their order."""

    def __init__(self) -> None:
        self.answers: dict[MessageId, Any] = {}
        self.chunks: dict[MessageId, list[Any]] = {}
        self.listens = True
        """Whether it still takes chunks."""
        self._bell = Bell()

    def reply(self, call_id: MessageId, result: Any) -> None:
        assert call_id not in self.answers, f"call {call_id} was answered twice"
        self.answers[call_id] = result
        self._bell.ring()

    def refuse(self, call_id: MessageId, error: HostlerError) -> None:
        self.reply(call_id, error)

    async def stream(self, call_id: MessageId, chunk: Any) -> bool:
        self.chunks.setdefault(call_id, []).append(chunk)
        return self.listens

    async def answer(self, call_id: MessageId) -> Any:
        """Wait for the answer; a refusal is raised."""
        await self._bell.until(lambda: call_id in self.answers, f"call {call_id} was never answered")
        answer = self.answers[call_id]
        if isinstance(answer, HostlerError):
            raise answer
        return answer


@dataclass
class PlayedExternalCaller(Runner):
    """An external caller: its calls are answered to itself."""

    may_wait: bool = False

    def __post_init__(self) -> None:
        super().__init__()


class Tools:
    """A tool service that is played. Its calls have these `outcomes` in their order, then numbers.

    `comes_back`: the version that its tools have once they are started to be called.
    """

    def __init__(self) -> None:
        self.calls: list[ToolInvocation] = []
        self.outcomes: list[Any] = []
        self.found: list[Any] = []
        """Answers of `lookup`."""
        self.gate: Gate | None = None
        """Calls wait here."""
        self.starts: Gate | None = None
        """Starts wait here."""
        self.version = ""
        self.comes_back: str | None = None
        self.pins: dict[str, ToolPin] = {}
        self.broken: Exception | None = None
        """Raised where a tool is described to people."""

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        if self.broken is not None:
            raise self.broken
        return {
            name: OfferedTool(ToolResource(tool_name=name), pin, version=self.version)
            for name, pin in self.pins.items()
        }

    async def check(self, workspace_id: str, tool_name: str, parameters: dict[str, Any]) -> None:
        pass

    async def call(self, invocation: ToolInvocation) -> Any:
        self.calls.append(invocation)
        if self.gate is not None:
            await self.gate.passed()
        outcome = self.outcomes.pop(0) if self.outcomes else len(self.calls)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def prepare(self, invocation: ToolInvocation) -> None:
        if self.starts is not None:
            await self.starts.passed()
        if self.comes_back is not None:
            self.version = self.comes_back
        now = self.offered(invocation.workspace_id).get(invocation.tool_name)
        if now is not None and invocation.definition not in (None, now.present.definition):
            raise ToolChangedError(f"{invocation.tool_name} is another one")

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return cast("Found | None", found)


class Handbook:
    """A knowledge base that is played: a read that can be held back, or fail."""

    def __init__(self) -> None:
        self.reads = 0
        self.gate: Gate | None = None
        self.error: Exception | None = None

    def offered(self, workspace_id: str) -> Mapping[str, KnowledgeBaseResource]:
        return {}

    async def retrieve(self, *_: Any, **__: Any) -> RetrieveReply:
        self.reads += 1
        if self.gate is not None:
            await self.gate.passed()
        if self.error is not None:
            raise self.error
        return RetrieveReply(items=[])


class Model:
    """A model service, its model and its provider, all played: it streams `pieces`."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.closed = False
        """Whether the last stream was closed before its end."""

    @property
    def provider(self) -> ModelProvider:
        return cast("ModelProvider", self)

    def get(self, model_id: str) -> Model:
        return self

    @property
    def entry(self) -> ModelEntry:
        return ModelEntry(id="played")

    @property
    def context_window(self) -> int | None:
        return None

    def cost(self, usage: Usage | None) -> None:
        return None

    async def stream(self, _: ModelRequest) -> AsyncGenerator[ModelChunk | ModelReply]:
        self.closed = False
        try:
            for piece in self.pieces:
                yield ModelChunk(delta=ModelDelta(content=piece))
            message = ModelMessage(role="assistant", content="".join(self.pieces))
            yield ModelReply(message=message, finish_reason="stop")
        except GeneratorExit:
            self.closed = True
            raise
