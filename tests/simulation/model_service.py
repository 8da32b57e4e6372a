"""A simulated service of models that answers, streams, refuses, hangs and breaks; what it answers is paid."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from hostler.domain.model_entries import ModelEntry
from hostler.models.call_timeouts import CallClock
from hostler.models.catalog import Built, endpoint_of
from hostler.models.errors import ModelUnsupportedError
from hostler.models.port import ModelRequest, RerankRequest, TokenCount
from hostler.models.retry import RetryLater, with_retries
from hostler.models.retry_policy import RetryPolicy
from hostler_protocol.calls import ModelChunk, ModelReply, RerankReply
from hostler_protocol.calls.models import ModelDelta
from hostler_protocol.content import FunctionSpec, ModelMessage, Usage
from hostler_protocol.errors import HostlerError
from simulation.outside import ServiceError, outside

URL = "https://models.example/v1"


def build(entry: ModelEntry, key: str | None) -> Built:
    """Build the simulated provider of an entry. See `hostler.models.catalog.Build`."""
    return SimulatedModel(entry, key), None


class SimulatedModel:
    """A ModelProvider whose service is outside; with the retries and timeouts of the product."""

    def __init__(self, entry: ModelEntry, key: str | None) -> None:
        self._endpoint = endpoint_of(entry, key, URL)
        self._timeout = entry.timeout
        self._retries = RetryPolicy(entry.max_retries)

    async def invoke(self, request: ModelRequest) -> ModelReply:
        """See ModelProvider."""
        text, broken = await self._answer(request)
        if broken:
            raise self._endpoint.broken("the connection was reset")
        return _reply(text)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk | ModelReply]:
        """See ModelProvider."""
        text, broken = await self._answer(request)
        pace = outside().chance.stream("pace of models")
        pieces = [text[at : at + 9] for at in range(0, len(text), 9)]
        for number, piece in enumerate(pieces):
            if broken and number == len(pieces) // 2:
                raise self._endpoint.broken("the connection was reset")
            await asyncio.sleep(pace.expovariate(1 / 0.02))
            yield ModelChunk(delta=ModelDelta(content=piece))
        yield _reply(text)

    async def rerank(self, request: RerankRequest) -> RerankReply:
        """See ModelProvider."""
        raise ModelUnsupportedError("the simulated model cannot rerank")

    async def count_tokens(
        self, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]
    ) -> TokenCount:
        """See ModelProvider."""
        return TokenCount(len(messages), "estimate")

    async def close(self) -> None:
        """See ModelProvider."""

    async def _answer(self, request: ModelRequest) -> tuple[str, bool]:
        """Return the answer, and whether its stream breaks."""
        clock = CallClock(request.deadline)
        question = str(request.messages[-1].content)

        async def attempt() -> tuple[str, bool] | RetryLater:
            try:
                return await clock.wait(
                    self._ask(question),
                    self._timeout,
                    partial(self._endpoint.silent, "nothing", self._timeout),
                )
            except HostlerError as error:
                if error.retryable:
                    return RetryLater(error)
                raise

        return await with_retries(attempt, self._retries, clock)

    async def _ask(self, question: str) -> tuple[str, bool]:
        out = outside()
        fault = out.fault("model")
        number = out.asked["model"]
        out.note("asked", question=question, number=number)

        def work() -> str:
            out.note("paid", question=question, number=number)
            return f"{question}#{number}"

        try:
            return await out.ask("model", work, fault), fault == "broken"
        except ServiceError as error:
            if error.status is None:
                raise self._endpoint.unreachable(str(error)) from None
            raise self._endpoint.refused(error.status, str(error)) from None


def _reply(text: str) -> ModelReply:
    return ModelReply(
        message=ModelMessage(role="assistant", content=text),
        finish_reason="stop",
        usage=Usage(input_tokens=7, output_tokens=len(text)),
    )
