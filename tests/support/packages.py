"""Python packages made by hand, and an index that offers them over HTTP."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import re
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ANY = "py3-none-any"


def write_wheel(
    folder: Path,
    name: str = "tiny",
    text: str = "VALUE = 1\n",
    requires: str = "",
    *,
    version: str = "1.0",
    files: Mapping[str, str] | None = None,
) -> Path:
    """A wheel with one module, and whatever `files` adds."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{ANY}.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    content = {
        f"{name}.py": text,
        **(files or {}),
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {ANY}\n",
    }
    rows = ""
    for file, words in content.items():
        sha = base64.urlsafe_b64encode(hashlib.sha256(words.encode()).digest()).rstrip(b"=").decode()
        rows += f"{file},sha256={sha},{len(words)}\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file, words in content.items():
            wheel.writestr(file, words)
        wheel.writestr(f"{info}/RECORD", f"{rows}{info}/RECORD,,\n")
    return path


def backend(marker: Path) -> str:
    """A build backend that leaves a mark as soon as it is imported, with all that it sees of the host."""
    return (
        "import os, pathlib\n"
        f"pathlib.Path({str(marker)!r}).write_text(repr(dict(os.environ)))\n"
        "def build_wheel(*_, **__): raise SystemExit(1)\n"
        "def get_requires_for_build_wheel(*_): return []\n"
    )


def project(name: str, marker: Path) -> dict[str, str]:
    """The files of a project that has to be built, which leaves the mark."""
    return {
        "pyproject.toml": (
            '[build-system]\nrequires = []\nbuild-backend = "evil_backend"\nbackend-path = ["."]\n'
            f'[project]\nname = "{name}"\ndynamic = ["version"]\n'
        ),
        "evil_backend.py": backend(marker),
        "setup.py": backend(marker),
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
    }


def write_project(folder: Path, name: str, marker: Path) -> Path:
    """The same as a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in project(name, marker).items():
        (folder / file).write_text(text)
    return folder


def write_source(folder: Path, name: str, marker: Path) -> Path:
    """The same as a source distribution."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in project(name, marker).items():
            member = tarfile.TarInfo(f"{name}-1.0/{file}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


class Index:
    """A package index over what lies in a folder; `asked` has the paths of all requests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.url = ""

    @contextlib.contextmanager
    def serving(self) -> Iterator[Index]:
        """Serve until the block is left."""
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                index.asked.append(self.path)
                found = index.page(self.path)
                self.send_response(404 if found is None else 200)
                kind = "text/html" if self.path.endswith("/") else "application/octet-stream"
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(found or b"")))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(found or b"")

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()

    def page(self, path: str) -> bytes | None:
        """The list of a package's files, or one of the files."""
        name = path.rstrip("/").rpartition("/")[2]
        if path.startswith("/files/"):
            return (self.folder / name).read_bytes() if (self.folder / name).exists() else None
        files = [file for file in sorted(self.folder.iterdir()) if _package_of(file) == name]
        links = [
            f'<a href="/files/{file.name}#sha256={hashlib.sha256(file.read_bytes()).hexdigest()}">'
            f"{file.name}</a>"
            for file in files
        ]
        return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode() if links else None


def _package_of(file: Path) -> str:
    return re.sub(r"[-_.]+", "-", file.name.partition("-")[0]).lower()
