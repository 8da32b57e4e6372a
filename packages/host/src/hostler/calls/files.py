"""`file.get`: files that the run's configuration selects. Their bytes are artifacts of the workspace."""

from __future__ import annotations

import base64

from hostler.calls.artifacts import read_range
from hostler.calls.scope import CallScope
from hostler.storage.stores import artifacts
from hostler_protocol.calls import FileGetParams, FileGetReply
from hostler_protocol.errors import NotFoundError


async def get(scope: CallScope, params: FileGetParams) -> FileGetReply:
    """`file.get`: one range, at most 4 MiB. That the grant holds the file was checked by the gate."""
    found = await scope.services.db.read(lambda tx: artifacts.find(tx, scope.workspace_id, params.file_id))
    if found is None:
        raise NotFoundError(f"file_id {params.file_id[:100]!r} is gone since this run began")
    content = await read_range(scope, found, params.offset, params.limit)
    return FileGetReply(
        file_id=params.file_id,
        size_bytes=found.size_bytes,
        offset=params.offset,
        length=len(content),
        content_base64=base64.b64encode(content).decode(),
        has_more=params.offset + len(content) < found.size_bytes,
        mime_type=found.mime_type,
    )
