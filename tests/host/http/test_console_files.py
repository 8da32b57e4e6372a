"""The files of the console: who may load what, from where, and for how long."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import httpx
import pytest

from hostler.console.files import FOLDER, PAGES, ConsoleFile, ConsoleFiles
from hostler.console.script_comments import without_comments
from hostler.console.text_parts import BASE, SHARED, TEXT_PARTS, part_of
from support.console_weight import MOST_BYTES
from support.http_host import serving

pytestmark = pytest.mark.gate("console")
ROOT = Path(__file__).parents[3]


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


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page_is_small_with_all_that_it_may_load(language: str) -> None:
    files = ConsoleFiles()
    begins = set(re.findall(r'"\{static\}/([^"]+)"', (FOLDER / "index.html").read_text("utf-8")))
    sizes: dict[tuple[str, str], int] = {}
    for name, parts in page_texts().items():
        page = FOLDER / "pages" / f"{name}.js"
        # of tabs that are pages of their own only one is loaded
        tabs = re.findall(r'=> import\("(\.\./components/[^"]+)"\),$', page.read_text("utf-8"), re.MULTILINE)
        for tab in tabs or [page.name]:
            modules = _imports(FOLDER / "console.js") | _imports(page)
            modules |= _imports(page.parent / tab, later=True)
            loaded = begins | {path.relative_to(FOLDER.resolve()).as_posix() for path in modules}
            loaded |= {f"locales/{language}/{part}.json" for part in (BASE, *parts)}
            sizes[name, tab] = sum(len(_of(files, one).compressed) for one in loaded)
    print(sorted(sizes.items(), key=lambda one: one[1], reverse=True))
    assert {place: size for place, size in sizes.items() if size >= MOST_BYTES} == {}


def page_texts() -> dict[str, set[str]]:
    """The parts of the texts that each page loads beside the base."""
    shell = (FOLDER / "components" / "shell.js").read_text("utf-8")
    named = re.findall(r'import\("\.\./pages/(\w+)\.js"\)(?:,\s*texts: |\} texts=\$\{)\[(.*?)\]', shell)
    pages = {name: set(re.findall(r'"(\w+)"', parts)) for name, parts in named}
    assert {path.stem for path in (FOLDER / "pages").glob("*.js")} == pages.keys()
    return pages


def test_each_page_loads_the_parts_of_the_texts_that_its_modules_use() -> None:
    texts = json.loads((FOLDER / "locales" / "en.json").read_text("utf-8"))
    groups = {key.partition(".")[0] for key in texts}
    assert {group for names in TEXT_PARTS.values() for group in names} <= groups
    for shared in SHARED:
        assert {shared, f"{shared}.other"} & texts.keys(), shared
    for name, parts in page_texts().items():
        used: dict[str, set[tuple[str, str]]] = {}
        for module in _imports(FOLDER / "console.js") | _imports(FOLDER / "pages" / f"{name}.js", later=True):
            for key in re.findall(r'["`]([a-z_]+\.[\w.]*)', module.read_text("utf-8")):
                if "vendor" not in module.parts and _is_text(key, texts):
                    used.setdefault(part_of(key), set()).add((module.name, key))
        more = used.keys() - parts - {BASE}
        assert more == set(), (name, {part: used[part] for part in more})
        assert parts <= used.keys(), f"{name} loads texts that none of its modules use"


def _is_text(key: str, texts: Iterable[str]) -> bool:
    """Whether a script that has the key may show a text: it is one, has forms, or is how some begin."""
    begins = key if key.endswith((".", "_")) else f"{key}."
    return any(text == key or text.startswith(begins) for text in texts)


def test_the_parts_are_all_of_the_texts() -> None:
    files = ConsoleFiles()
    for language in ("en", "zh"):
        whole = json.loads((FOLDER / "locales" / f"{language}.json").read_text("utf-8"))
        names = [f"locales/{language}/{part}.json" for part in (BASE, *TEXT_PARTS)]
        parts = [json.loads(_of(files, name).content) for name in names]
        assert {key: text for part in parts for key, text in part.items()} == whole
        assert sum(len(part) for part in parts) == len(whole)


def _of(files: ConsoleFiles, name: str) -> ConsoleFile:
    found = files.find(f"/static/{files.digest}/{name}")
    assert found is not None, name
    return found


def _imports(module: Path, *, later: bool = False) -> set[Path]:
    """A module and all that it imports by the time it runs, or `later` too."""
    found, left = set[Path](), [module.resolve()]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            text = without_comments(path.read_bytes()).decode()
            named = re.findall(r'^(?:import|export)\b[^;]*?"(\.[^"]+)"', text, re.MULTILINE)
            named += re.findall(r'\bfrom"(\./[^"]+)"', text)
            named += re.findall(r'\bimport\("(\.[^"]+)"\)', text) if later else []
            left += [(path.parent / name).resolve() for name in named]
    return found


def test_every_module_that_is_imported_is_there() -> None:
    for module in FOLDER.rglob("*.js"):
        for path in _imports(module, later=True):
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
    pairs = {
        path.stem: json.loads(path.read_text("utf-8"), object_pairs_hook=list)
        for path in (FOLDER / "locales").glob("*.json")
    }
    assert set(pairs) == {"en", "zh"}
    texts = {language: dict(found) for language, found in pairs.items()}
    for name, found in pairs.items():
        twice = [key for key, times in Counter(key for key, _ in found).items() if times > 1]
        assert twice == [], f"{name}: the last of them would be shown everywhere"
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
