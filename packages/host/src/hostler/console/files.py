"""The files of the console: read once, and addressed by what they hold.

A file is at `/static/DIGEST/NAME`, where DIGEST is that of all files: browsers keep it for ever, and modules
that import each other by relative paths are always of one version. The address of each page leads to the one
HTML file, whose scripts show the page.

Files are served as they are written, but for comments, and for texts, of which pages load parts.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hostler.console.script_comments import without_comments, without_remarks
from hostler.console.text_parts import split_texts

FOLDER = Path(__file__).with_name("static")
PREFIX = "/static/"
PAGES = frozenset(
    {
        "",
        "agents",
        "approvals",
        "audit",
        "channels",
        "chat",
        "hooks",
        "knowledge",
        "mcp-servers",
        "models",
        "plugins",
        "runs",
        "schedules",
        "settings",
        "skills",
        "tools",
        "usage",
        "workers",
    }
)
"""The first segments of the addresses of pages."""
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
"""Of the files that are served; others, such as licences, are only shipped."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; "
    "require-trusted-types-for 'script'; trusted-types dompurify"
)
"""`require-trusted-types-for`: no code but DOMPurify's can turn text into HTML."""


@dataclass
class ConsoleFile:
    """A file as it is sent."""

    content: bytes
    media_type: str

    @cached_property
    def compressed(self) -> bytes:
        """The content, by gzip."""
        return gzip.compress(self.content, 9, mtime=0)


class ConsoleFiles:
    """All files, read at the first request."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    @cached_property
    def digest(self) -> str:
        """The digest of all files."""
        whole = hashlib.sha256()
        for name, content in sorted(self._contents.items()):
            whole.update(f"{name}\0{len(content)}\0".encode() + content)
        return whole.hexdigest()[:16]

    @cached_property
    def page(self) -> ConsoleFile:
        """The HTML file of all pages."""
        text = self._contents["index.html"].decode("utf-8")
        return _file(text.replace("{static}", f"{PREFIX}{self.digest}").encode(), ".html")

    def find(self, path: str) -> ConsoleFile | None:
        """Return the file at a path of the host; None if there is none, or it is of another version."""
        digest, _, name = path.removeprefix(PREFIX).partition("/")
        return self._files.get(name) if path.startswith(PREFIX) and digest == self.digest else None

    @staticmethod
    def is_page(path: str) -> bool:
        """Whether a path of the host is the address of a page."""
        return path.startswith("/") and path.split("/", 2)[1] in PAGES

    @cached_property
    def names(self) -> frozenset[str]:
        """What can be found, without the path of all files."""
        return frozenset(self._files)

    @cached_property
    def _contents(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for path in sorted(self._folder.rglob("*")):
            if path.is_file() and path.suffix in MEDIA_TYPES:
                found |= _served(path.relative_to(self._folder), path.read_bytes())
        return found

    @cached_property
    def _files(self) -> dict[str, ConsoleFile]:
        return {
            name: _file(content, Path(name).suffix)
            for name, content in self._contents.items()
            if name != "index.html"
        }


def _served(path: Path, content: bytes) -> dict[str, bytes]:
    """Return what is served of a file, by name."""
    match path.parts[0], path.suffix:
        case "locales", _:
            folder = path.with_suffix("").as_posix()
            return {f"{folder}/{part}.json": texts for part, texts in split_texts(content).items()}
        case "vendor", _:
            return {path.as_posix(): content}
        case _, ".js":
            return {path.as_posix(): without_comments(content)}
        case _, ".css":
            return {path.as_posix(): without_remarks(content)}
        case _:
            return {path.as_posix(): content}


def _file(content: bytes, suffix: str) -> ConsoleFile:
    return ConsoleFile(content, MEDIA_TYPES[suffix])
