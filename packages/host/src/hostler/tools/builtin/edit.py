"""Write files and edit texts in a working folder; a repeated call has no further effect."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from hostler.tools.workspaces.folders import WorkingFolder
from hostler.tools.workspaces.tree import WorkTree
from hostler_protocol.errors import ConflictError, InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.limits import MIB

MAX_TEXT_BYTES = 8 * MIB
"""Size of a file to edit, which is held in memory."""
MAX_NOTES = 256
"""Edits remembered per folder: a call is repeated soon, or never."""


class _Note(msgspec.Struct, frozen=True):
    """A started edit: SHA-256 of the file before and after."""

    before: str
    after: str
    replaced: int


def write_file(folder: WorkingFolder, path: str, content: bytes) -> bool:
    """Write a whole file if there is room; return whether it is new. Raises PayloadTooLargeError."""
    room = folder.room()
    if len(content) > room.size_bytes or room.files < 1:
        raise folder.full()
    return folder.tree.write(path, content)


def edit_text(folder: WorkingFolder, parameters: Mapping[str, Any], effect_key: str) -> dict[str, Any]:
    """Replace a part of a text file. A repeated call finds that the edit is done.

    Raises InvalidArgumentError if the part is missing or not unique; ConflictError if the file was changed
    since the call started.
    """
    path, old, new = parameters["path"], str(parameters["old"]).encode(), str(parameters["new"]).encode()
    content = read_whole(folder.tree, path)
    now = hashlib.sha256(content).hexdigest()
    note_path = folder.notes / effect_key
    note = _note_at(folder, effect_key)
    if note is not None and now == note.after:
        return {"path": path, "replaced": note.replaced}
    if note is not None and now != note.before:
        raise ConflictError(
            f"{path!r:.200} was changed since this edit was begun: read it, then edit it again"
        )
    count = content.count(old)
    if count == 0:
        raise InvalidArgumentError(
            f"{path!r:.200} does not hold the text in `old`: read it, and copy exactly"
        )
    if count > 1 and not parameters.get("all", False):
        raise InvalidArgumentError(
            f"the text in `old` is {count} times in {path!r:.200}: "
            "give more of what is around it, or say `all`"
        )
    changed = content.replace(old, new)
    note = _Note(now, hashlib.sha256(changed).hexdigest(), count)
    written = note_path.with_suffix(".new")
    written.write_bytes(msgspec.json.encode(note))
    written.replace(note_path)
    write_file(folder, path, changed)
    _forget_old(folder)
    return {"path": path, "replaced": count}


def read_whole(tree: WorkTree, path: str) -> bytes:
    """Return the content of a file. Raises PayloadTooLargeError."""
    content, size = tree.read(path, 0, MAX_TEXT_BYTES)
    if size > MAX_TEXT_BYTES:
        raise PayloadTooLargeError(
            f"{path!r:.200} has {size:,} bytes; at most {MAX_TEXT_BYTES:,} are edited at once",
            limit_bytes=MAX_TEXT_BYTES,
        )
    return content


def _note_at(folder: WorkingFolder, effect_key: str) -> _Note | None:
    try:
        return msgspec.json.decode((folder.notes / effect_key).read_bytes(), type=_Note)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _forget_old(folder: WorkingFolder) -> None:
    with os.scandir(folder.notes) as entries:
        notes = sorted((entry.stat().st_mtime_ns, entry.path) for entry in entries)
    for _, path in notes[:-MAX_NOTES]:
        os.unlink(path)  # noqa: PTH108
