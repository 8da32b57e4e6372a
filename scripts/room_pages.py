"""The rooms of the host: what each is for, and which rooms it imports, read from the code."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import log2
from pathlib import Path

ROWS = [
    ["pytest_plugin"],
    ["testing"],
    ["cli"],
    ["http", "simulation"],
    ["console"],
    ["host"],
    ["channels"],
    ["runs"],
    ["calls"],
    ["pauses"],
    ["journal"],
    ["plugins"],
    ["tools"],
    ["models", "sandbox", "storage", "egress"],
    ["secrets", "version"],
    ["domain"],
]
"""From the top down, as `.importlinter` checks it; rooms of one row do not import each other."""

ROW_HEIGHT = 34
"""Of the drawing, in pixels, as the numbers below."""
LEFT, BOX_WIDTH, ARC_WIDTH = 10, 300, 330


@dataclass(frozen=True, slots=True)
class Room:
    """A package, or a module, directly below the host's root. `imports`: import statements by room."""

    name: str
    purpose: str
    modules: int
    lines: int
    imports: Counter[str]


def read_rooms(root: Path) -> dict[str, Room]:
    """Read every room of the package at `root`, in the order of `ROWS`.

    ValueError for a room that has no row, an import that points up, or one between two rooms of a row.
    """
    found = {path.stem for path in root.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    order = [name for row in ROWS for name in row]
    if strange := sorted(found - set(order) - {"__init__", "__main__"}):
        raise ValueError(f"no row for {', '.join(strange)}: add them to ROWS and to .importlinter")
    rooms = {name: _read_room(root, name) for name in order if name in found}
    for room in rooms.values():
        for other in room.imports:
            if _row_of(other) <= _row_of(room.name):
                raise ValueError(f"{room.name} imports {other}, which is not below it")
    return rooms


def _row_of(name: str) -> int:
    return next(index for index, row in enumerate(ROWS) if name in row)


def _read_room(root: Path, name: str) -> Room:
    single = root / f"{name}.py"
    files = [single] if single.exists() else sorted((root / name).rglob("*.py"))
    imports: Counter[str] = Counter()
    lines = 0
    for file in files:
        text = file.read_text("utf-8")
        lines += text.count("\n")
        imports.update(other for other in _imported(ast.parse(text)) if other != name)
    first = single if single.exists() else root / name / "__init__.py"
    purpose = ast.get_docstring(ast.parse(first.read_text("utf-8"))) or ""
    return Room(name, purpose.split("\n\n")[0].replace("\n", " "), len(files), lines, imports)


def _imported(tree: ast.AST) -> Iterator[str]:
    """The room of each import of the host, wherever in a file it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = names if node.module == "hostler" else [node.module]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for module in modules:
            parts = module.split(".")
            if parts[0] == "hostler" and len(parts) > 1:
                yield parts[1]


def room_page(rooms: dict[str, Room]) -> Iterator[str]:
    """`docs/rooms.md`: the table of rooms, and who imports whom."""
    arrows = sum(len(room.imports) for room in rooms.values())
    yield from [
        "# Rooms",
        "",
        "The host is built in rooms, one above the other. A room imports only rooms below it; rooms of one",
        f"row do not import each other. There are {len(rooms)} rooms and {arrows} arrows between them.",
        "An arrow that points up fails `uv run lint-imports` and `scripts/generate_docs.py --check`. Why:",
        "[decision](decisions/rooms-not-layers-of-files.md).",
        "",
        "![Each room, and an arc to each room that it imports](rooms.svg)",
        "",
        "| Room | What it is for | Modules | Imports |",
        "| --- | --- | ---: | --- |",
    ]
    for room in rooms.values():
        imports = ", ".join(name for name in rooms if name in room.imports) or "nothing of the host"
        yield f"| `{room.name}` | {room.purpose} | {room.modules} | {imports} |"


def room_drawing(rooms: dict[str, Room]) -> str:
    """`docs/rooms.svg`: rooms from the top down, an arc on the right for each import, thicker for more."""
    height = len(ROWS) * ROW_HEIGHT + 20
    width = LEFT + BOX_WIDTH + ARC_WIDTH * 3 // 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="14">',
        "<title>Imports between the rooms of the host</title>",
        "<style>text{fill:#24292f}rect{fill:#eef4fb;stroke:#7aa7d8}path{fill:none;stroke:#7aa7d8;opacity:.75}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#16263a;stroke:#4b7fb8}"
        "path{stroke:#4b7fb8}}</style>",
    ]
    right = LEFT + BOX_WIDTH
    for room in rooms.values():
        for other, count in sorted(room.imports.items()):
            start, end = _middle(_row_of(room.name)), _middle(_row_of(other))
            reach = right + ARC_WIDTH * (end - start) / (len(ROWS) * ROW_HEIGHT)
            parts.append(
                f'<path d="M{right} {start}C{reach:.0f} {start} {reach:.0f} {end} {right} {end}" '
                f'stroke-width="{0.6 + log2(count) / 3:.1f}"/>'
            )
    for index, row in enumerate(ROWS):
        shown = [name for name in row if name in rooms]
        each = BOX_WIDTH / max(len(shown), 1)
        for number, name in enumerate(shown):
            x, y = LEFT + number * each, _middle(index) - ROW_HEIGHT / 2 + 4
            parts.append(
                f'<rect x="{x:.0f}" y="{y:.0f}" width="{each:.0f}" height="{ROW_HEIGHT - 8}" rx="5"/>'
                f'<text x="{x + each / 2:.0f}" y="{_middle(index) + 5}" text-anchor="middle">{name}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])


def _middle(row: int) -> int:
    return 10 + row * ROW_HEIGHT + ROW_HEIGHT // 2
