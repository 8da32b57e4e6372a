"""Paths relative to a working folder, as models and people write them."""

from __future__ import annotations

from hostler.tools.workspaces.tree_removal import MAX_DEPTH
from hostler_protocol.errors import InvalidArgumentError

MAX_PATH_CHARS = 2_000
"""Length of a path: half of the system's maximum, which leaves room for the folder's own path."""
MAX_NAME_BYTES = 255
"""Length of a name: the maximum of common file systems."""


def parts_of(path: str) -> tuple[str, ...]:
    """Return the parts of a relative path; () for the folder itself. Raises InvalidArgumentError."""
    if "\x00" in path:
        raise InvalidArgumentError("the path holds a NUL character")
    if len(path) > MAX_PATH_CHARS:
        raise InvalidArgumentError(
            f"the path has {len(path):,} characters; at most {MAX_PATH_CHARS:,} are allowed"
        )
    if path.startswith("/"):
        raise InvalidArgumentError(
            f"{path!r:.200} is absolute: paths are relative to the working folder, like 'data/a.txt'"
        )
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise InvalidArgumentError(f"{path!r:.200} leads upwards: paths stay in the working folder")
    if len(parts) > MAX_DEPTH:
        raise InvalidArgumentError(f"the path has {len(parts)} steps; at most {MAX_DEPTH} are allowed")
    for part in parts:
        try:
            size = len(part.encode())
        except UnicodeEncodeError:
            raise InvalidArgumentError(f"{part!r:.200} is no Unicode text") from None
        if size > MAX_NAME_BYTES:
            raise InvalidArgumentError(
                f"{part!r:.80}... has {size:,} bytes; a name has at most {MAX_NAME_BYTES}"
            )
    return parts
