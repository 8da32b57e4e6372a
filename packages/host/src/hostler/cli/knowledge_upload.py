"""Documents on their way into a knowledge base: files, folders and stdin, with progress on the terminal."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hostler.cli.output import USAGE, fail
from hostler.cli.routes import route
from hostler.cli.terminal import err
from hostler.domain.record import Record
from hostler_protocol.errors import (
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from hostler_protocol.limits import KIB

if TYPE_CHECKING:
    from hostler.cli.client import Api

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""The largest document of a knowledge base: what is larger is not even read."""
MAX_FILES = 10_000
"""The most documents of a knowledge base."""
LOOK_SECONDS = 0.5
"""How often to ask how far the indexing is."""


class Source(Record):
    """A document to upload. `path`: None for stdin."""

    name: str
    path: Path | None
    size: int


class Upload(Record):
    """Where documents go, and how. `shown`: progress is shown, if there is a terminal."""

    base: str
    media_type: str | None
    metadata: dict[str, Any]
    wait: bool = False
    shown: bool = True


@dataclass(slots=True)
class Uploaded:
    """What became of one: its record, or why it was refused."""

    name: str
    record: dict[str, Any] | None = None
    error: str | None = None


@dataclass(slots=True)
class Progress:
    """How far an upload is. Its functions are called with absolute numbers."""

    sent: Callable[[int, str], None] = field(default=lambda done, name: None)
    indexed: Callable[[int, int, str], None] = field(default=lambda done, whole, name: None)


def sources(paths: Sequence[Path], name: str | None) -> list[Source]:
    """Return the documents that paths name. Ends the command if one of them cannot be read."""
    if name is not None and (len(paths) > 1 or paths[0].is_dir()):
        fail("--name is of one document: give one file, or leave it out", USAGE)
    found: list[Source] = []
    for path in paths:
        if str(path) == "-":
            if name is None:
                fail("name the document that comes from stdin, like --name notes.md", USAGE)
            found.append(Source(name, None, 0))
            continue
        try:
            found += _folder(path) if path.is_dir() else [_file(path, name or path.name)]
        except OSError as error:
            fail(f"{path} cannot be read: {error.strerror}", USAGE)
    if len(found) > MAX_FILES:
        fail(f"{len(found):,} files: a knowledge base has at most {MAX_FILES:,} documents", USAGE)
    if not found:
        fail(f"no files in {', '.join(map(str, paths))}: hidden ones and links are left out", USAGE)
    taken: set[str] = set()
    for one in found:
        if one.name in taken:
            fail(f"two of these files would be the document {one.name!r}: upload one of them alone", USAGE)
        taken.add(one.name)
    return found


def _folder(folder: Path) -> list[Source]:
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in sorted(files):
            path = Path(place, name)
            if name.startswith(".") or not stat.S_ISREG(path.lstat().st_mode):
                continue
            found.append(_file(path, path.relative_to(folder).as_posix()))
    return found


def _file(path: Path, name: str) -> Source:
    seen = path.stat()
    if not stat.S_ISREG(seen.st_mode):
        fail(f"{path} is neither a file nor a folder", USAGE)
    return Source(name, path, seen.st_size)


async def upload_all(api: Api, upload: Upload, found: Sequence[Source]) -> list[Uploaded]:
    """Upload documents one after the other; with `wait`, return when each is indexed or has failed.

    What is wrong with one document is in its outcome. HostlerError for what is wrong with all.
    """
    await api.get(route("knowledge", upload.base))  # before anything is read
    whole = sum(one.size for one in found)
    done: list[Uploaded] = []
    with _shown(whole, shown=upload.shown) as progress:
        before = 0
        for one in found:

            def sent(count: int, before: int = before, name: str = one.name) -> None:
                progress.sent(before + count, name)

            sent(0)
            done.append(await _one(api, upload, one, sent))
            before += one.size
            progress.sent(before, one.name)
        if upload.wait:
            await _indexed(api, upload.base, done, progress)
    return done


async def _one(api: Api, upload: Upload, source: Source, sent: Callable[[int], None]) -> Uploaded:
    import msgspec

    query = {"metadata": msgspec.json.encode(upload.metadata).decode()} if upload.metadata else {}
    try:
        content = _content(source)
        record = await api.put_content(
            route("knowledge", upload.base, "documents", source.name),
            content,
            upload.media_type or "application/octet-stream",
            on_sent=sent,
            **query,
        )
    except OSError as error:
        return Uploaded(source.name, error=f"it cannot be read: {error.strerror}")
    except (NotFoundError, UnauthorizedError, UnavailableError):
        raise  # so would be all others
    except HostlerError as error:
        return Uploaded(source.name, error=error.message)
    return Uploaded(source.name, record)


def _content(source: Source) -> bytes:
    """Return the bytes of a document. InvalidArgumentError if there are too many, which are not all read."""
    most = MAX_DOCUMENT_BYTES + 1
    if source.path is None:
        found = sys.stdin.buffer.read(most)
    else:
        with _opened(source.path) as file:
            found = file.read(most)
    if len(found) > MAX_DOCUMENT_BYTES:
        raise InvalidArgumentError(
            f"it has more than {MAX_DOCUMENT_BYTES:,} bytes, the most of a document: split it"
        )
    return found


def _opened(path: Path) -> IO[bytes]:
    """Open a file; what became no regular file meanwhile may never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is no file any more")
    return os.fdopen(descriptor, "rb")


async def _indexed(api: Api, base: str, done: list[Uploaded], progress: Progress) -> None:
    """Wait until each document is ready or has failed; one that was deleted meanwhile is an error."""
    waiting = [one for one in done if one.record is not None]
    whole = len(waiting)
    while waiting:
        one = waiting[0]
        try:
            one.record = await api.get(route("knowledge", base, "documents", one.name))
        except NotFoundError:
            one.record, one.error = None, "it was deleted before it was indexed"
        progress.indexed(whole - len(waiting), whole, _told(one.record))
        if one.record is not None and one.record["state"] in ("waiting", "indexing"):
            await asyncio.sleep(LOOK_SECONDS)
        else:
            waiting.pop(0)


def _told(record: dict[str, Any] | None) -> str:
    """Return which document is indexed, and how far it is."""
    if record is None:
        return ""
    total = record["passages_total"]
    return record["name"] if total is None else f"{record['name']} {record['passages_done']}/{total}"


@contextmanager
def _shown(whole: int, *, shown: bool) -> Iterator[Progress]:
    if not shown or not err().is_terminal:
        yield Progress()
        return
    from rich import progress as bars

    columns = (
        bars.TextColumn("{task.fields[doing]}"),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[far]}", markup=False),
        bars.TextColumn("{task.fields[at]}", markup=False, style="dim"),
    )
    with bars.Progress(*columns, console=err(), transient=True) as shown_progress:
        task = shown_progress.add_task("", total=max(1, whole), doing="", far="", at="")

        def draw(doing: str, done: int, total: int, far: str, at: str) -> None:
            begins = shown_progress.tasks[0].fields["doing"] != doing  # seen, however fast all goes
            shown_progress.update(
                task, completed=done, total=total, doing=doing, far=far, at=at, refresh=begins
            )

        def sent(done: int, name: str) -> None:
            draw("uploading", done, max(1, whole), f"{done / KIB:,.0f} of {whole / KIB:,.0f} KiB", name)

        def indexed(done: int, documents: int, at: str) -> None:
            draw("indexing", done, documents, f"{done:,} of {documents:,} documents", at)

        yield Progress(sent, indexed)
