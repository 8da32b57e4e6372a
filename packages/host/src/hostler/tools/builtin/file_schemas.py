"""Descriptions and schemas of the `files` tools."""

from __future__ import annotations

from typing import Any

from hostler.tools.workspaces.paths import MAX_PATH_CHARS
from hostler.tools.workspaces.tree_removal import MAX_DEPTH
from hostler_protocol.limits import KIB

MAX_LINES = 2_000
"""Lines of one read."""
MAX_READ_BYTES = 128 * KIB
"""Bytes of one read: about what a model can take at once."""

DESCRIPTIONS = {
    "list": "List the files and folders of the working folder, or of a folder in it.",
    "read": "Read lines of a text file of the working folder, or bytes of any file as base64.",
    "write": "Write a whole file of the working folder; folders on the way to it are made.",
    "edit": "Replace a text in a file of the working folder: it must stand there once, unless `all` is said.",
    "search": "Find the lines that hold a text, in all files of the working folder or of a folder in it.",
    "remove": "Remove a file of the working folder, or a folder with all that is in it.",
    "load": "Put an artifact into the working folder as a file.",
    "keep": "Make a file of the working folder an artifact, which others can read and which lasts.",
}

_PATH = {"type": "string", "minLength": 1, "maxLength": MAX_PATH_CHARS, "description": "Like data/a.txt."}
_FOLDER = {"type": "string", "maxLength": MAX_PATH_CHARS, "description": "Where to look; all, if left out."}


def _schema(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


SCHEMAS: dict[str, dict[str, Any]] = {
    "list": _schema(
        "",
        path=_FOLDER,
        depth={
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_DEPTH,
            "description": "Levels; 1, if left out.",
        },
    ),
    "read": _schema(
        "path",
        path=_PATH,
        first_line={"type": "integer", "minimum": 1, "description": "Lines count from 1."},
        lines={"type": "integer", "minimum": 1, "maximum": MAX_LINES},
        encoding={"enum": ["text", "base64"]},
        offset={"type": "integer", "minimum": 0, "description": "In bytes, with base64."},
    ),
    "write": _schema(
        "path",
        path=_PATH,
        text={"type": "string", "description": "All that the file shall hold."},
        base64={"type": "string", "description": "The same, where it is no text."},
    ),
    "edit": _schema(
        "path old new",
        path=_PATH,
        old={"type": "string", "minLength": 1},
        new={"type": "string"},
        all={"type": "boolean", "description": "Replace it wherever it stands."},
    ),
    "search": _schema(
        "text",
        text={"type": "string", "minLength": 1, "maxLength": 1_000},
        path=_FOLDER,
        pattern={"type": "string", "maxLength": 200, "description": "Of file names, like *.py."},
        ignore_case={"type": "boolean"},
    ),
    "remove": _schema(
        "path", path=_PATH, recursive={"type": "boolean", "description": "Folders that hold something."}
    ),
    "load": _schema("artifact_id path", artifact_id={"type": "string"}, path=_PATH),
    "keep": _schema("path", path=_PATH),
}
