"""Artifacts of a tool call: those it may read, files that the tool returns, and large results.

Bytes are durable as they come; their artifacts are made in the transaction that writes the call's outcome, so
that neither is there without the other. A result over the limit becomes an artifact too: the runner, the
journal and every replay of it have its beginning and its id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.calls.artifacts import find_in_reach
from hostler.calls.scope import CallScope
from hostler.domain.outcomes import Uploaded
from hostler.domain.place import Place
from hostler.domain.quotas import Amounts
from hostler.storage.port import Tx
from hostler.storage.stores import artifacts, blobs, quotas
from hostler.storage.stores.artifacts import TOOL_RESULT, NewArtifact
from hostler.storage.stores.blob_files import CHUNK_BYTES
from hostler.storage.stores.blobs import Blob
from hostler.storage.stores.quota_puts import put_within_quota
from hostler.tools.errors import ToolFailedError
from hostler.tools.port import ReadableArtifact
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import HostlerError, NotFoundError, PayloadTooLargeError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_RESULT_BYTES, MIB
from hostler_protocol.tools import KeptResult

MAX_KEPT_RESULT_BYTES = 64 * MIB
"""The largest result that becomes an artifact: it is in memory as a whole until then."""
MAX_ARTIFACTS_PER_CALL = 64
PREVIEW_CHARS = 2_000
"""The part shown of a result that became an artifact: enough to see what it is and to continue."""


@dataclass(eq=False, slots=True)
class CallArtifacts:
    """The artifacts of one asking of a tool. `RunArtifacts`."""

    scope: CallScope
    tool_name: str
    call_id: str
    made: list[NewArtifact] = field(default_factory=list)

    async def open(self, artifact_id: str) -> ReadableArtifact:
        """An artifact that the run may see."""
        found = await find_in_reach(self.scope, artifact_id)
        if found is None:
            raise NotFoundError(f"artifact_id {artifact_id[:100]!r} is no artifact that this run may see")
        services = self.scope.services
        content = artifacts.stream(found, services.blobs, registered=services.registered)
        return ReadableArtifact(found.artifact_id, found.name, found.mime_type, found.size_bytes, content)

    async def keep(
        self, content: bytes | AsyncIterator[bytes], *, name: str | None = None, mime_type: str | None = None
    ) -> ArtifactRef:
        """Make an artifact, with the outcome of the call."""
        return await self._keep(content, name, mime_type, "file")

    async def within_limit(self, result: Any) -> Any:
        """Return the result, as an artifact if it is too large. PayloadTooLargeError past all limits."""
        encoded = msgspec.json.encode(result)
        if len(encoded) <= MAX_RESULT_BYTES:
            return result
        if len(encoded) > MAX_KEPT_RESULT_BYTES:
            raise PayloadTooLargeError(
                f"the result of {self.tool_name} has {len(encoded):,} bytes; at most "
                f"{MAX_KEPT_RESULT_BYTES:,} are kept",
                limit_bytes=MAX_KEPT_RESULT_BYTES,
            )
        is_text = isinstance(result, str)
        content = result.encode() if is_text else encoded
        mime_type = "text/plain; charset=utf-8" if is_text else "application/json"
        name = f"{self.tool_name}.{'txt' if is_text else 'json'}"
        kept = await self._keep(_chunks(content), name, mime_type, TOOL_RESULT)
        return msgspec.to_builtins(
            KeptResult(
                artifact_id=kept.artifact_id,
                mime_type=mime_type,
                file_name=name,
                size_bytes=len(content),
                preview=content[: PREVIEW_CHARS * 4].decode("utf-8", "ignore")[:PREVIEW_CHARS],
            )
        )

    def create(self, tx: Tx) -> HostlerError | None:
        """Make them all, in the transaction of the outcome; or none, and return why: a quota has no room."""
        scope = self.scope
        exceeded = quotas.check(tx, scope.workspace_id, scope.allotment, self._amounts)
        if exceeded is not None:
            return ToolFailedError.of(exceeded.error)
        for new in self.made:
            artifacts.create(tx, scope.workspace_id, new, scope.allotment.bounds)
        return None

    async def discard(self) -> None:
        """Remove the files of a call that failed."""
        services = self.scope.services
        await blobs.discard(services.db, services.blobs, [new.blob for new in self.made])

    def announce(self) -> None:
        """From here on the runner may name them in `artifact.created`."""
        for new in self.made:
            uploaded = Uploaded(new.blob.size_bytes, new.blob.sha256, new.mime_type, new.name)
            self.scope.uploads[new.artifact_id or ""] = uploaded

    async def _keep(
        self, content: bytes | AsyncIterator[bytes], name: str | None, mime_type: str | None, kind: str
    ) -> ArtifactRef:
        if len(self.made) >= MAX_ARTIFACTS_PER_CALL:
            raise PayloadTooLargeError(
                f"one call makes at most {MAX_ARTIFACTS_PER_CALL} artifacts", limit=MAX_ARTIFACTS_PER_CALL
            )
        grant, blob = self.scope.grant, await self._put(content)
        artifact_id = new_id()
        self.made.append(
            NewArtifact(
                artifact_type=kind,
                blob=blob,
                source="tool",
                artifact_id=artifact_id,
                mime_type=mime_type,
                name=name,
                place=Place.of(grant),
                run_id=self.scope.run_id,
                agent_id=grant.agent_id,
                runner_id=grant.runner_id,
                metadata={"tool_name": self.tool_name, "call_id": self.call_id},
            )
        )
        return ArtifactRef(
            artifact_id=artifact_id,
            artifact_type=kind,
            mime_type=mime_type,
            name=name,
            size_bytes=blob.size_bytes,
        )

    @property
    def _amounts(self) -> Amounts:
        return Amounts(len(self.made), sum(new.blob.size_bytes for new in self.made))

    async def _put(self, content: bytes | AsyncIterator[bytes]) -> Blob:
        """Store bytes, at most as many as the quotas have room for."""
        scope = self.scope
        services = scope.services
        return await put_within_quota(
            services.db,
            services.blobs,
            content,
            ws=scope.workspace_id,
            allotment=scope.allotment,
            before=self._amounts,
        )


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), CHUNK_BYTES):
        yield content[start : start + CHUNK_BYTES]
