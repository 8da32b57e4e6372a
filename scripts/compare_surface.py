"""Compare what programs outside rely on between two revisions: `compare_surface.py BEFORE [AFTER]`.

Database schema, protocol schema, OpenAPI document, commands and options, configuration file, metrics, and
the public names of the SDK with their signatures. Texts for people (descriptions, help, titles) do not count.
Each revision is checked out into a temporary folder and read in its own environment; AFTER is by default this
folder as it is. Prints each difference as one line, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TEXTS = frozenset({"description", "summary", "title", "examples"})
TABLES_OF_TEXTS = frozenset({"run_failures"})
"""Of these, the names count."""
SHOWN_CHARS = 200
"""Of each side of a difference."""

READER = r"""
import importlib, inspect, json, re, sys
from pathlib import Path

import msgspec


def first(*names):
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(names)


def command(one):
    found = {"options": sorted((option(each) for each in one.params), key=lambda each: each["names"])}
    if hasattr(one, "commands"):
        context = one.make_context("hostler", [], resilient_parsing=True)
        found["commands"] = {name: command(one.resolve_command(context, [name])[1]) for name in one.commands}
    return found


def option(each):
    return {
        "names": sorted([*each.opts, *each.secondary_opts]),
        "kind": each.param_type_name,
        "type": str(each.type_descriptor.annotation),
        "bounds": [each.min, each.max],
        "required": each.required,
        "multiple": getattr(each, "multiple", False),
        "default": str(each.default) if not callable(each.default) else "computed",
        "env": each.envvar,
    }


def migrations():
    found = {}
    for path in sorted(Path("packages/host/src/hostler").rglob("migrations/*.sql")):
        lines = (line.split("--")[0] for line in path.read_text("utf-8").splitlines())
        found[path.name] = " ".join(" ".join(lines).split())
    return found


def names(package):
    module, found = importlib.import_module(package), {}
    for name in module.__all__:
        thing = getattr(module, name)
        try:
            found[name] = re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(thing)))
        except (TypeError, ValueError):
            found[name] = type(thing).__name__
        if inspect.isclass(thing):
            found[name] = {"signature": found[name], "names": sorted(n for n in dir(thing) if n[0] != "_")}
    return found


def metrics():
    source = "".join(path.read_text("utf-8") for path in sorted(Path("packages/host/src").rglob("*.py")))
    return sorted(set(re.findall(r"\bhostler_[a-z_]+_(?:total|seconds|bytes|running|waiting)\b", source)))


openapi = importlib.import_module("hostler.http.openapi")
routes = importlib.import_module("hostler.http.route_table")
table = importlib.import_module("hostler.http.endpoint")
endpoints = [one for module in routes.ROUTE_MODULES for one in table.endpoints_of(module)]
config = first("hostler.host.config", "hostler.config")
json.dump(
    {
        "database": migrations(),
        "protocol": json.loads(Path("schema/v1.json").read_text("utf-8")),
        "openapi": openapi.document(endpoints, "0"),
        "commands": command(importlib.import_module("typer.main").get_command(
            importlib.import_module("hostler.cli.commands").app)),
        "configuration": msgspec.json.schema(config.ConfigFile),
        "sdk": names("hostler_sdk"),
        "metrics": metrics(),
    },
    sys.stdout,
)
"""


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", help="a revision")
    parser.add_argument("after", nargs="?", help="a revision; by default this folder as it is")
    options = parser.parse_args()
    before, after = surface_at(options.before), surface_at(options.after)
    found = list(differences(before, after, ""))
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.stdout.write(f"{len(found)} differences in {', '.join(before)}\n")
    return 1 if found else 0


def surface_at(revision: str | None) -> dict[str, Any]:
    """Read the surface of a revision; None: of this folder as it is."""
    if revision is None:
        return read_surface(ROOT)
    with tempfile.TemporaryDirectory(prefix="hostler-surface-") as folder:
        checkout = Path(folder) / "checkout"
        subprocess.run(["git", "clone", "-q", "--no-checkout", str(ROOT), str(checkout)], check=True)
        subprocess.run(["git", "-C", str(checkout), "checkout", "-q", revision], check=True)
        return read_surface(checkout)


def read_surface(checkout: Path) -> dict[str, Any]:
    """Read the surface of a checkout, in the environment that its lock file names."""
    command = ["uv", "run", "--quiet", "--locked", "--project", str(checkout), "python", "-c", READER]
    done = subprocess.run(command, check=True, cwd=checkout, stdout=subprocess.PIPE)
    surface: dict[str, Any] = json.loads(done.stdout)
    return surface


def differences(before: Any, after: Any, place: str) -> Iterator[str]:
    """Yield one line for each place where two JSON values differ, texts for people aside."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            if key in TEXTS and not isinstance(before.get(key, after.get(key)), dict):
                continue
            if key not in after:
                yield f"{place}/{key}: gone, was {shown(before[key])}"
            elif key not in before:
                yield f"{place}/{key}: new, {shown(after[key])}"
            elif key in TABLES_OF_TEXTS:
                yield from differences(sorted(before[key]), sorted(after[key]), f"{place}/{key}")
            else:
                yield from differences(before[key], after[key], f"{place}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{place}/{index}")
    elif before != after:
        yield f"{place}: {shown(before)} -> {shown(after)}"


def shown(value: Any) -> str:
    """Return a value as one bounded line."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "..."


if __name__ == "__main__":
    sys.exit(main())
