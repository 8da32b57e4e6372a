"""The runs of one plugin, and the runner that executes them, between the protocol and a peer."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from hostler_langbot.actions import STREAMS, ActiveRun, act, decoded, stream_llm, version_of
from hostler_langbot.attachments import elements_of
from hostler_langbot.context import context_of
from hostler_langbot.peer import ActionFailed, Peer, PluginGone
from hostler_langbot.requests import ModelCall
from hostler_langbot.results import RunTranslation
from hostler_sdk import Conflict, HostError, Result, RunContext, Runner, Unauthorized, failed, log
from hostler_sdk.types import ArtifactElement, ContentElement, FileBase64Element, ImageBase64Element

MAX_INLINED_BYTES = 8 * 1024 * 1024
"""Stored files of one input that are sent with the context: as base64 they fit into a message of the wire."""
CLEAN_UP_SECONDS = 3.0
"""Time of a cancelled run for its last calls; the host fences it after 5 s."""
CLEAN_UP_PINGS = 2
LOOK_SECONDS = 0.01


class Bridge:
    """Carries out what the plugin asks for, in the name of the runs that it has."""

    def __init__(self) -> None:
        self.capability = secrets.token_urlsafe(32)
        """Proves that the process that registers is the one that was started. Of one use."""
        self.registered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        """What the plugin's process says about itself."""
        self.runs: dict[str, ActiveRun] = {}
        self._host_version = ""

    @contextlib.contextmanager
    def at_work(self, ctx: RunContext) -> Iterator[ActiveRun]:
        """Let the plugin make calls in the name of a run, within the block."""
        self._host_version = ctx.runtime.host_version
        run = self.runs[ctx.run_id] = ActiveRun(ctx)
        try:
            yield run
        finally:
            if self.runs.get(run.run_id) is run:  # a later attempt may have taken its place
                del self.runs[run.run_id]

    async def call(self, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out an action. Raises HostError."""
        if name == "register_plugin":
            return self._register(data)
        if name == "get_langbot_version" and "run_id" not in data:
            return version_of(self._host_version)
        run = self._run_of(name, data)
        run.acting += 1
        try:
            return await act(run, name, data)
        finally:
            run.acting -= 1

    def stream(self, name: str, data: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]] | None:
        """Return the answers of a streaming action; None for another one. Raises HostError."""
        if name not in STREAMS:
            return None
        return stream_llm(self._run_of(name, data), decoded(data, ModelCall))

    def _run_of(self, name: str, data: Mapping[str, Any]) -> ActiveRun:
        run_id = data.get("run_id")
        if run_id is None:
            raise Unauthorized(f"{name[:100]} is answered within a run only: it needs the run's run_id")
        run = self.runs.get(run_id) if isinstance(run_id, str) else None
        if run is None:
            raise Unauthorized(f"{name[:100]}: {str(run_id)[:100]!r} is no run at work in this plugin")
        return run

    def _register(self, data: Mapping[str, Any]) -> dict[str, Any]:
        stated = data.get("registration_capability")
        if self.registered.done():
            raise Conflict("the plugin is registered already")
        if not isinstance(stated, str) or not hmac.compare_digest(stated.encode(), self.capability.encode()):
            raise Unauthorized(
                "the registration does not have the capability that the process was started with"
            )
        container = data.get("plugin_container")
        self.registered.set_result(container if isinstance(container, dict) else {})
        return {}


class BridgedRunner(Runner):
    """A runner of a plugin of LangBot."""

    def __init__(self, name: str, bridge: Bridge, peer: Peer) -> None:
        self._name = name
        self._bridge = bridge
        self._peer = peer

    async def run(self, ctx: RunContext) -> AsyncIterator[Result]:
        """Let the plugin execute the run, and pass its results on."""
        with self._bridge.at_work(ctx) as run:
            try:
                async for result in self._results(ctx):
                    yield result
            except asyncio.CancelledError:
                run.cancel_requested_at = time.time()
                await self._let_clean_up(run)
                raise
            except PluginGone:
                # this process is about to end as well: the host then sees a crash, and acts by its policy
                await asyncio.Event().wait()

    async def _let_clean_up(self, run: ActiveRun) -> None:
        """Wait while the plugin still makes calls in the name of a cancelled run, within a bound.

        The wire does not say when a cancelled request has ended. Once a ping that was sent after the
        cancellation is answered, what the plugin does on its cancellation has begun.
        """
        with contextlib.suppress(TimeoutError, ActionFailed):
            async with asyncio.timeout(CLEAN_UP_SECONDS):
                for _ in range(CLEAN_UP_PINGS):
                    await self._peer.request("__ping", {}, CLEAN_UP_SECONDS)
                while run.acting:
                    await asyncio.sleep(LOOK_SECONDS)
                    await self._peer.request("__ping", {}, CLEAN_UP_SECONDS)

    async def _results(self, ctx: RunContext) -> AsyncIterator[Result]:
        inlined, notes = await _inlined(ctx)
        for note in notes:
            yield note
        translation = RunTranslation(ctx.run_id)
        request = {"runner_name": self._name, "context": context_of(ctx.given, inlined)}
        try:
            async with contextlib.aclosing(self._peer.stream("run_runner", request)) as items:
                async for item in items:
                    for result in translation.take(item):
                        yield result
        except PluginGone:
            raise
        except ActionFailed as error:
            if not translation.ended:
                yield failed("runner.error", f"the plugin could not execute the run: {error}")
            return
        for result in translation.finish():
            yield result


async def _inlined(ctx: RunContext) -> tuple[dict[str, ContentElement], list[Result]]:
    """Return the stored files of the input as content elements, by artifact, and notes about the others."""
    found: dict[str, ContentElement] = {}
    notes: list[Result] = []
    left = MAX_INLINED_BYTES
    for element in elements_of(ctx.input):
        if not isinstance(element, ArtifactElement) or element.artifact_id in found:
            continue
        try:
            whole = await _whole(ctx, element)
            if (whole.size_bytes or 0) > left:
                text = f"the file {element.artifact_id} is too large to be sent to the plugin: it gets its id"
                notes.append(log(text, "warning"))
                continue
            data = b"".join([part async for part in ctx.artifacts.stream(element.artifact_id)])
        except HostError as error:
            notes.append(
                log(f"the file {element.artifact_id} cannot be read for the plugin: {error}", "warning")
            )
            continue
        left -= len(data)
        found[element.artifact_id] = _inline(whole, base64.b64encode(data).decode())
    return found, notes


async def _whole(ctx: RunContext, element: ArtifactElement) -> ArtifactElement:
    """Return the element with the size and the type of the stored file, which it need not state."""
    if element.size_bytes is not None and element.mime_type is not None:
        return element
    stored = await ctx.artifacts.metadata(element.artifact_id)
    return ArtifactElement(
        artifact_id=element.artifact_id,
        mime_type=element.mime_type or stored.mime_type,
        file_name=element.file_name or stored.name,
        size_bytes=stored.size_bytes,
    )


def _inline(element: ArtifactElement, data: str) -> ContentElement:
    mime_type = element.mime_type
    if (mime_type or "").startswith("image/"):
        return ImageBase64Element(image_base64=data, mime_type=mime_type)
    return FileBase64Element(file_base64=data, file_name=element.file_name, mime_type=mime_type)
