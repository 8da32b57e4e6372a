"""The port of a model service: what the host asks, and what comes back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hostler_protocol.calls import ModelChunk, ModelReply, RerankReply
from hostler_protocol.content import ArtifactElement, FunctionSpec, ModelMessage


@dataclass(frozen=True, slots=True)
class Attachment:
    """The bytes behind an artifact that a message refers to."""

    data: bytes
    mime_type: str | None = None
    name: str | None = None


ReadArtifact = Callable[[ArtifactElement], Awaitable[Attachment | None]]
"""Gives an artifact's bytes, or None where it is gone or the run may not see it."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model. `deadline` in UTC epoch seconds; None: none but the service's own limits."""

    messages: Sequence[ModelMessage]
    tools: Sequence[FunctionSpec] = ()
    extra_args: dict[str, Any] = field(default_factory=dict)
    deadline: float | None = None
    read_artifact: ReadArtifact | None = None


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """Documents to be ordered by how well they answer `query`."""

    query: str
    documents: Sequence[str]
    top_k: int | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class TokenCount:
    """How many tokens a request takes, and what counted: a tokenizer's name, or `estimate`."""

    input_tokens: int
    counted_by: str


class ModelProvider(Protocol):
    """One model of one service.

    Raises HostlerErrors whose message says what to do and never holds a key; `retryable` tells
    whether the same request may succeed later. Cancelling a call closes its connection.
    """

    async def invoke(self, request: ModelRequest) -> ModelReply:
        """The whole answer."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk | ModelReply]:
        """The answer as it is written, then the whole as ModelReply, last and once.

        Whoever stops early closes the generator (`contextlib.aclosing`), which ends the connection.
        """
        ...

    async def rerank(self, request: RerankRequest) -> RerankReply:
        """The documents' indexes, best first."""
        ...

    async def count_tokens(
        self, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]
    ) -> TokenCount:
        """How many tokens this would take as input."""
        ...

    async def close(self) -> None:
        """End all connections."""
        ...
