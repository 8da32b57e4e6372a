"""Read lines of text files, and search the files of a working folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from hostler.tools.builtin.file_schemas import MAX_READ_BYTES
from hostler.tools.workspaces.tree import CHUNK_BYTES, WorkTree
from hostler.tools.workspaces.tree_removal import MAX_DEPTH
from hostler_protocol.errors import HostlerError, InvalidArgumentError
from hostler_protocol.limits import MIB

MAX_MATCHES = 200
MAX_MATCH_CHARS = 300
"""Characters shown of a matching line."""
MAX_SEARCHED_BYTES = 8 * MIB
"""Bytes of one file; larger files are skipped and listed."""
MAX_SKIPPED = 20
SEARCH_SECONDS = 10.0
_LOOKED_AT_BYTES = 8192
"""A NUL in the first bytes marks a file as binary."""


def read_lines(tree: WorkTree, path: str, first_line: int, lines: int) -> dict[str, Any]:
    """Return lines of a text file, at most MAX_READ_BYTES together."""
    taken: list[bytes] = []
    size, number, more = 0, 0, False
    for line in _lines(tree, path):
        number += 1
        if number < first_line:
            continue
        if len(taken) == lines or size + len(line) > MAX_READ_BYTES:
            more = True
            if not taken:  # one line that is longer than all that may be shown
                taken.append(line[:MAX_READ_BYTES])
            break
        taken.append(line)
        size += len(line)
    content = b"".join(taken)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        if not (more and error.end == len(content)):  # cut in the middle of a character
            raise InvalidArgumentError(
                f"{path!r:.200} is no UTF-8 text: read it with `encoding: base64`, or use exec"
            ) from None
        text = content[: error.start].decode()
    result = {"path": path, "first_line": first_line, "lines": len(taken), "text": text}
    return {**result, "more": True} if more else result


def search(
    tree: WorkTree, text: str, path: str = "", pattern: str = "*", ignore_case: bool = False
) -> dict[str, Any]:
    """Return the lines that contain a text. `pattern` is a shell pattern for file names."""
    until = time.monotonic() + SEARCH_SECONDS
    wanted = text.casefold() if ignore_case else text
    matches: list[dict[str, Any]] = []
    skipped: list[str] = []
    for info in tree.entries(path, depth=MAX_DEPTH, seconds=SEARCH_SECONDS):
        if info.type != "file" or not fnmatchcase(info.path.rpartition("/")[2], pattern):
            continue
        if time.monotonic() > until:
            return {"matches": matches, "more": True, "note": f"stopped after {SEARCH_SECONDS:g} s"}
        try:
            content, size = tree.read(info.path, 0, MAX_SEARCHED_BYTES)
        except HostlerError:
            continue  # removed or replaced meanwhile
        if size > MAX_SEARCHED_BYTES:
            skipped.append(info.path)
            continue
        if b"\x00" in content[:_LOOKED_AT_BYTES]:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
            if wanted in (line.casefold() if ignore_case else line):
                if len(matches) == MAX_MATCHES:
                    return {"matches": matches, "more": True}
                matches.append({"path": info.path, "line": number, "text": line[:MAX_MATCH_CHARS]})
    result: dict[str, Any] = {"matches": matches}
    if skipped:
        result["too_large"] = skipped[:MAX_SKIPPED]
    return result


def _lines(tree: WorkTree, path: str) -> Iterator[bytes]:
    """Yield lines with their ends; a line longer than MAX_READ_BYTES comes in parts."""
    with tree.opened(path) as descriptor:
        rest = b""
        while piece := os.read(descriptor, CHUNK_BYTES):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line + b"\n"
            if len(rest) > MAX_READ_BYTES:
                yield rest
                rest = b""
        if rest:
            yield rest
