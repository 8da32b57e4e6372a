"""Copy artifacts into a working folder, and its files into artifacts."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import AsyncIterator
from typing import Any

from hostler.domain.working_folders import FolderOwner
from hostler.tools.port import RunArtifacts, ToolInvocation
from hostler.tools.workspaces.folders import WorkingFolder, WorkingFolders
from hostler.tools.workspaces.tree import CHUNK_BYTES, Staged
from hostler_protocol.errors import HostlerError, UnavailableError


def owner_of(invocation: ToolInvocation, folders: WorkingFolders) -> FolderOwner:
    """Return the owner of the folder for a call: its conversation, or its run."""
    place = invocation.place
    if folders.settings.per == "run" or place.conversation_id is None:
        return FolderOwner(kind="run", workspace_id=invocation.workspace_id, run_id=invocation.run_id)
    return FolderOwner(
        kind="conversation",
        workspace_id=invocation.workspace_id,
        agent_id=invocation.agent_id,
        **place._asdict(),
    )


def artifacts_of(invocation: ToolInvocation) -> RunArtifacts:
    """Return the run's artifacts. Raises UnavailableError if the caller has none."""
    if invocation.artifacts is None:
        raise UnavailableError(f"{invocation.tool_name} is called without a way to artifacts")
    return invocation.artifacts


async def import_artifact(
    folders: WorkingFolders, folder: WorkingFolder, artifacts: RunArtifacts, artifact_id: str, path: str
) -> int:
    """Copy an artifact into the folder; return its size in bytes.

    Raises NotFoundError, InvalidArgumentError or PayloadTooLargeError.
    """
    artifact = await artifacts.open(artifact_id)
    room = await folders.in_thread(folder.room)
    if artifact.size_bytes > room.size_bytes or room.files < 1:
        raise folder.full()
    staged = await folders.in_thread(folder.tree.begin)
    try:
        async for piece in artifact.content:
            await _write(folders, staged, piece)
        await folders.in_thread(lambda: staged.place(path))
    finally:
        await folders.in_thread(staged.discard)
    return staged.size


async def export_file(
    folders: WorkingFolders, folder: WorkingFolder, artifacts: RunArtifacts, path: str
) -> dict[str, Any]:
    """Create an artifact from a file of the folder. Return its description, or the error."""
    try:
        with folder.tree.opened(path) as descriptor:
            name = path.rstrip("/").rpartition("/")[2]
            mime_type = mimetypes.guess_type(name)[0]
            kept = await artifacts.keep(_read(folders, descriptor), name=name, mime_type=mime_type)
    except HostlerError as error:
        return {"path": path, "error": error.message}
    return {
        "path": path,
        "artifact_id": kept.artifact_id,
        "size_bytes": kept.size_bytes,
        **({} if mime_type is None else {"mime_type": mime_type}),
    }


async def _write(folders: WorkingFolders, staged: Staged, piece: bytes) -> None:
    await folders.in_thread(lambda: staged.write(piece))


async def _read(folders: WorkingFolders, descriptor: int) -> AsyncIterator[bytes]:
    """Yield the content of a file, up to its size at the start."""
    size, offset = os.fstat(descriptor).st_size, 0
    while offset < size:
        length = min(CHUNK_BYTES, size - offset)
        piece = await folders.in_thread(lambda at=offset, most=length: os.pread(descriptor, most, at))  # type: ignore[misc]
        if not piece:
            return
        yield piece
        offset += len(piece)
