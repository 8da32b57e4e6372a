"""The console's scripts are checked by TypeScript: they have their types in comments, and no build step."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hostler.console.files import FOLDER
from hostler.console.script_comments import without_comments
from support.node_clients import node_clients

pytestmark = [pytest.mark.gate("console"), pytest.mark.timeout(300)]
LIBRARIES = {one["name"]: one for one in json.loads((FOLDER / "vendor" / "vendor.json").read_text("utf-8"))}
MODULES = {
    "preact-hooks": "preact/hooks",
    "signals": "@preact/signals",
    "signals-core": "@preact/signals-core",
}
"""File in `vendor` -> module, where the two have other names."""
WITH_DEFAULT = {"dompurify", "htm", "uplot"}
OPTIONS = {
    "allowJs": True,
    "checkJs": True,
    "noEmit": True,
    "strict": True,
    "noUncheckedSideEffectImports": True,
    "target": "es2023",
    "module": "esnext",
    "moduleResolution": "bundler",
    "lib": ["es2023", "dom", "dom.iterable", "dom.asynciterable"],
    "skipLibCheck": True,
    "types": [],
}


def test_types_hold(tmp_path: Path) -> None:
    libraries = [f"{name}@{one['version']}" for name, one in LIBRARIES.items()]
    node = node_clients("typescript@5.9.3", *libraries)
    node.lend_to(tmp_path)
    vendor = tmp_path / "types" / "vendor"
    vendor.mkdir(parents=True)
    for path in (FOLDER / "vendor").glob("*.js"):
        module = MODULES.get(path.stem, path.stem)
        lines = [f'export * from "{module}";']
        if path.stem in WITH_DEFAULT:
            lines = [f'import whole from "{module}";', "export default whole;"]
        (vendor / f"{path.stem}.d.ts").write_text("\n".join(lines))
    sources = tmp_path / "static"
    for path in FOLDER.rglob("*.js"):
        if "vendor" not in path.parts:
            copy = sources / path.relative_to(FOLDER)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(path.read_text("utf-8"), "utf-8")
    config = {
        "compilerOptions": {**OPTIONS, "rootDirs": ["static", "types"]},
        "include": ["static/**/*.js", "types/**/*.d.ts"],
    }
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    compiler = node.module("typescript") / "bin" / "tsc"
    found = subprocess.run(
        [node.program, compiler, "-p", tmp_path], capture_output=True, text=True, check=False, timeout=240
    )
    assert (found.returncode, found.stdout) == (0, "")


PRINT = """
const [compiler, folder] = process.argv.slice(1);
const ts = require(compiler), fs = require("fs"), path = require("path");
const printer = ts.createPrinter({ removeComments: true });
const text = (one) => fs.readFileSync(path.join(folder, one), "utf8");
const read = (one) => ts.createSourceFile("x.js", text(one), ts.ScriptTarget.Latest);
const names = fs.readdirSync(path.join(folder, "written"));
const shown = (one) => printer.printFile(read(one));
const other = names.filter((one) => shown(`written/${one}`) !== shown(`served/${one}`));
console.log(JSON.stringify([names.length, other]));
"""


def test_scripts_are_the_same_without_their_comments(tmp_path: Path) -> None:
    node = node_clients("typescript@5.9.3", *(f"{name}@{one['version']}" for name, one in LIBRARIES.items()))
    written, served = tmp_path / "written", tmp_path / "served"
    written.mkdir()
    served.mkdir()
    scripts = [path for path in FOLDER.rglob("*.js") if "vendor" not in path.parts]
    for path in scripts:
        name, content = "-".join(path.relative_to(FOLDER).parts), path.read_bytes()
        (written / name).write_bytes(content)
        (served / name).write_bytes(without_comments(content))
        assert without_comments(content).count(b"\n") == content.count(b"\n"), "lines keep their numbers"
    compiler = node.module("typescript") / "lib" / "typescript.js"
    found = subprocess.run(
        [node.program, "-e", PRINT, compiler, tmp_path],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert json.loads(found.stdout) == [len(scripts), []]
    whole, rest = (sum(path.stat().st_size for path in folder.iterdir()) for folder in (written, served))
    assert rest < 0.85 * whole, "types are not sent"
