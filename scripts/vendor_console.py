"""Fetch the libraries of the console's pages, or check that those that are here are what they say.

    python scripts/vendor_console.py           fetch each at the version of LIBRARIES
    python scripts/vendor_console.py --check   compare what is here with vendor.json

A library is one ES module as its makers publish it, but for the names of the modules that it imports:
browsers know only paths. Where they publish a small build as a script alone, a last line exports what it
makes. `vendor.json` says for each file where it is from, under which licence, and its digest.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

FOLDER = Path(__file__).parents[1] / "packages/host/src/hostler/console/static/vendor"
MANIFEST = FOLDER / "vendor.json"
REGISTRY = "https://registry.npmjs.org"


@dataclass(frozen=True)
class Library:
    """A package of npm. `files`: name here -> path in the package; `imports`: module -> its file here.

    `exports`: what its script makes, an expression; None if it is a module.
    """

    name: str
    version: str
    files: dict[str, str]
    imports: dict[str, str] = field(default_factory=dict)
    exports: str | None = None
    licence_file: str = "LICENSE"


LIBRARIES = [
    Library(
        "preact",
        "11.2.0",
        {"preact.js": "dist/preact.mjs", "preact-hooks.js": "hooks/dist/hooks.mjs"},
        {"preact": "preact.js"},
    ),
    Library("htm", "3.1.1", {"htm.js": "dist/htm.module.js"}),
    Library("@preact/signals-core", "1.14.5", {"signals-core.js": "dist/signals-core.module.js"}),
    Library(
        "@preact/signals",
        "2.11.4",
        {"signals.js": "dist/signals.module.js"},
        {
            "preact": "preact.js",
            "preact/hooks": "preact-hooks.js",
            "@preact/signals-core": "signals-core.js",
        },
    ),
    Library(
        "uplot",
        "1.6.32",
        {"uplot.js": "dist/uPlot.iife.min.js", "uplot.css": "dist/uPlot.min.css"},
        exports="uPlot",
    ),
    Library("marked", "18.2.1", {"marked.js": "lib/marked.esm.js"}),
    Library("dompurify", "3.5.0", {"dompurify.js": "dist/purify.min.js"}, exports="globalThis.DOMPurify"),
]


def fetch() -> None:
    """Fetch all libraries, and write the manifest."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    manifest = [_fetch(library) for library in LIBRARIES]
    MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")


def _fetch(library: Library) -> dict[str, Any]:
    published = httpx.get(f"{REGISTRY}/{library.name}/{library.version}").raise_for_status().json()
    archive = httpx.get(published["dist"]["tarball"]).raise_for_status().content
    integrity = published["dist"]["integrity"]
    if not _has_integrity(archive, integrity):
        raise SystemExit(f"{library.name} {library.version}: the archive is not what the registry says")
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        stem = next(iter(library.files)).partition(".")[0]
        wanted = {**library.files, f"{stem}.LICENSE": library.licence_file}
        for name, path in wanted.items():
            member = package.extractfile(f"package/{path}")
            if member is None:
                raise SystemExit(f"{library.name} has no file {path}")
            content = _with_paths(member.read(), library) if name.endswith(".js") else member.read()
            (FOLDER / name).write_bytes(content)
            files[name] = {"from": path, "sha256": hashlib.sha256(content).hexdigest()}
    return {
        "name": library.name,
        "version": library.version,
        "licence": published["license"],
        "archive": published["dist"]["tarball"],
        "integrity": integrity,
        "files": files,
    }


def _has_integrity(archive: bytes, integrity: str) -> bool:
    algorithm, _, digest = integrity.partition("-")
    return hashlib.new(algorithm, archive).digest() == base64.b64decode(digest)


def _with_paths(content: bytes, library: Library) -> bytes:
    text = content.decode("utf-8")
    for module, file in library.imports.items():
        for quote in "'\"":
            text = text.replace(f"from{quote}{module}{quote}", f"from{quote}./{file}{quote}")
            text = text.replace(f"from {quote}{module}{quote}", f"from {quote}./{file}{quote}")
    lines = [line for line in text.splitlines() if not line.startswith("//# sourceMappingURL=")]
    if library.exports is not None:
        lines.append(f"export default {library.exports};")
    return ("\n".join(lines) + "\n").encode()


def mistakes() -> list[str]:
    """Return what is wrong with the libraries that are here."""
    found = []
    manifest = json.loads(MANIFEST.read_text("utf-8"))
    listed = [(one["name"], one["version"]) for one in manifest]
    if listed != [(library.name, library.version) for library in LIBRARIES]:
        found.append(f"{MANIFEST.name} lists other versions than {Path(__file__).name}")
    known = {MANIFEST.name}
    for one in manifest:
        for name, facts in one["files"].items():
            known.add(name)
            path = FOLDER / name
            if not path.is_file():
                found.append(f"{name} is missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != facts["sha256"]:
                found.append(f"{name} is not what {one['name']} {one['version']} has")
    found += [f"{path.name} is of no library" for path in FOLDER.iterdir() if path.name not in known]
    return found


def main() -> None:
    """Fetch, or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    if not parser.parse_args().check:
        fetch()
    found = mistakes()
    sys.stderr.writelines(f"{mistake}\n" for mistake in found)
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
