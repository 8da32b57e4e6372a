"""The port of model services: requests of the host, and their answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from hostler.domain.record import Record
from hostler_protocol.calls import EmbedReply, ModelChunk, ModelReply, RerankReply
from hostler_protocol.content import ArtifactElement, FunctionSpec, ModelMessage
from hostler_protocol.errors import HostlerError


class Attachment(Record):
    """The content of an artifact in a message."""

    data: bytes
    mime_type: str | None = None
    name: str | None = None


ReadArtifact = Callable[[ArtifactElement], Awaitable[Attachment | None]]
"""Returns the content of an artifact, or None if it is gone or the run may not see it."""


MayRepeat = Callable[[HostlerError], Awaitable[bool]]
"""Asked before a request that ended with a temporary error is made again; False: the error stands."""


class ModelRequest(Record):
    """A request to a model. `deadline` in UTC epoch seconds; None: only the limits of the service apply.

    A provider that makes a request again asks `may_repeat` each time: it may be charged again.
    """

    messages: Sequence[ModelMessage]
    tools: Sequence[FunctionSpec] = ()
    extra_args: dict[str, Any] = msgspec.field(default_factory=dict)
    deadline: float | None = None
    read_artifact: ReadArtifact | None = None
    may_repeat: MayRepeat | None = None


class RerankRequest(Record):
    """Documents to rank by how well they answer `query`."""

    query: str
    documents: Sequence[str]
    top_k: int | None = None
    deadline: float | None = None
    may_repeat: MayRepeat | None = None


class EmbedRequest(Record):
    """Texts, or tokens of texts, whose vectors are wanted."""

    inputs: Sequence[str | list[int]]
    dimensions: int | None = None
    deadline: float | None = None
    may_repeat: MayRepeat | None = None


class TokenCount(Record):
    """The tokens of a request, and how they were counted: a tokenizer's name, or `estimate`."""

    input_tokens: int
    counted_by: str


class ModelProvider(Protocol):
    """One model of one service.

    Raises HostlerErrors whose message says what to do and never contains a key; `retryable` says whether the
    same request may succeed later. Cancelling a call closes its connection.
    """

    async def invoke(self, request: ModelRequest) -> ModelReply:
        """Return the complete answer."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk | ModelReply]:
        """Yield the chunks of the answer, and at the end the complete answer as ModelReply.

        A caller that stops early must close the generator (`contextlib.aclosing`), to close the connection.
        """
        ...

    async def rerank(self, request: RerankRequest) -> RerankReply:
        """Return the indexes and scores of the documents, best first."""
        ...

    async def embed(self, request: EmbedRequest) -> EmbedReply:
        """Return the vector of each input, in the order of the inputs."""
        ...

    async def count_tokens(
        self, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]
    ) -> TokenCount:
        """Count the input tokens of a request."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
