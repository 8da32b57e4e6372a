"""The files of the console: who may load what, from where, and for how long."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from hostler.console.files import FOLDER, PAGES, ConsoleFiles
from support.http_host import serving

pytestmark = pytest.mark.gate("console")
ROOT = Path(__file__).parents[3]
PAGE_KILOBYTES = 150


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(tmp_path / "data") as served, served.as_key(None) as made:
        yield made


async def test_every_page_is_the_one_file_and_may_load_nothing_of_others(client: httpx.AsyncClient) -> None:
    first = await client.get("/")
    policy = first.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert not re.search(r"unsafe|https?:|\*|(?<!img-src 'self' )data:", policy)
    assert first.headers["x-frame-options"] == "DENY"
    assert first.headers["cache-control"] == "no-store"
    assert "<script>" not in first.text
    assert "style=" not in first.text
    for path in (*(f"/{name}" for name in PAGES), "/runs/a%2Fb", "/runs/x?status=failed"):
        assert (await client.get(path)).content == first.content, path
    head = await client.head("/runs")
    assert (head.status_code, head.content) == (200, b"")


async def test_files_are_kept_for_ever_and_none_is_of_another_version(
    client: httpx.AsyncClient,
) -> None:
    page = (await client.get("/")).text
    names = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    assert len(names) > 5
    for name in names:
        answer = await client.get(name)
        assert answer.status_code == 200, name
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["x-content-type-options"] == "nosniff"
        plain = await client.get(name, headers={"accept-encoding": "identity"})
        assert plain.content == answer.content
        assert "content-encoding" not in plain.headers
    digest = names[0].split("/")[2]
    for path in (
        "/static/0123456789abcdef/console.js",
        f"/static/{digest}/none.js",
        f"/static/{digest}/index.html",
        f"/static/{digest}/vendor/preact.LICENSE",
        f"/static/{digest}/../files.py",
        f"/static/{digest}/%2e%2e/files.py",
        "/static/",
        "/nothing",
    ):
        assert (await client.get(path)).status_code == 404, path
    for path in (names[0], "/runs"):
        refused = await client.post(path)
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        asked = await client.options(path)
        assert (asked.status_code, asked.headers["allow"]) == (204, "GET, HEAD, OPTIONS")


def test_a_page_is_small() -> None:
    files = ConsoleFiles()
    named = re.findall(r'"\{static\}/([^"]+)"', (FOLDER / "index.html").read_text("utf-8"))
    pages = sorted((FOLDER / "pages").glob("*.js"))
    assert pages
    for page in pages:
        loaded = _imports(page) | {FOLDER / name for name in named} | _imports(FOLDER / "console.js")
        loaded |= {FOLDER / "locales" / "en.json"}
        # what a page is made of, not what it may load later
        parts = re.findall(r'=> import\("(\.\./components/[^"]+)"\),$', page.read_text("utf-8"), re.MULTILINE)
        for part in parts or [page.name]:
            sizes = [len(_of(files, path)) for path in loaded | _imports(page.parent / part)]
            assert sum(sizes) < PAGE_KILOBYTES * 1000, (page.name, part, sum(sizes))


def _of(files: ConsoleFiles, path: Path) -> bytes:
    found = files.find(f"/static/{files.digest}/{path.relative_to(FOLDER).as_posix()}")
    assert found is not None, path
    return found.compressed


def _imports(module: Path) -> set[Path]:
    """A module and all that it imports by the time it runs."""
    found, left = set[Path](), [module.resolve()]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            text = path.read_text("utf-8")
            named = re.findall(r'^(?:import|export)\b[^;]*?"(\.[^"]+)"', text, re.MULTILINE)
            named += re.findall(r'\bfrom"(\./[^"]+)"', text)
            left += [(path.parent / name).resolve() for name in named]
    return found


def test_every_module_that_is_imported_is_there() -> None:
    for module in FOLDER.rglob("*.js"):
        for path in _imports(module):
            assert path.is_file(), (module, path)


def test_libraries_are_what_they_say() -> None:
    script = ROOT / "scripts" / "vendor_console.py"
    checked = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    for library in json.loads((FOLDER / "vendor" / "vendor.json").read_text("utf-8")):
        assert library["licence"]
        assert any(name.endswith(".LICENSE") for name in library["files"]), library["name"]


def test_every_block_of_the_stylesheet_begins_outside_of_all_others() -> None:
    text, depth = (FOLDER / "console.css").read_text("utf-8"), 0
    for line in text.splitlines():
        assert depth == 0 or not line.startswith("/* "), line
        depth += line.count("{") - line.count("}")
    assert depth == 0


def test_texts_are_in_both_languages_and_all_are_used() -> None:
    texts = {path.stem: json.loads(path.read_text("utf-8")) for path in (FOLDER / "locales").glob("*.json")}
    assert set(texts) == {"en", "zh"}
    assert texts["en"].keys() == texts["zh"].keys()
    for language in texts.values():
        assert all(isinstance(text, str) and text.strip() for text in language.values())
    for key, text in texts["en"].items():
        fields = set(re.findall(r"\{(\w+)\}", text))
        assert fields == set(re.findall(r"\{(\w+)\}", texts["zh"][key])), key
    code = "\n".join(path.read_text("utf-8") for path in FOLDER.rglob("*.js") if "vendor" not in path.parts)
    exact = set(re.findall(r'\bt\("([\w.]+)"', code)) | set(re.findall(r'"([a-z_]+\.[a-z_.]+)"', code))
    prefixes = set(re.findall(r"\bt\(`([\w.]+\.)\$\{", code))
    forms = {form for key in exact for form in (f"{key}.one", f"{key}.other")}
    for key in re.findall(r'\bt\("([\w.]+)"', code):
        assert {key, f"{key}.other"} & texts["en"].keys(), f"{key} has no text"
    unused = [key for key in texts["en"] if key not in exact | forms and not key.startswith(tuple(prefixes))]
    assert unused == []
