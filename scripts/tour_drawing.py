"""docs/tour.svg: an event on its way in, a host call, and a result on its way out, file by file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the drawing. `steps`: (file below the host's package, what happens there) in order."""

    title: str
    steps: tuple[tuple[str, str], ...]
    rises: bool
    """Begins at the plugin process and goes up."""


COLUMNS = (
    Column(
        "An event comes in",
        (
            ("http/middleware.py", "key, rate, right, decoding"),
            ("http/routes/events.py", "POST /v1/events"),
            ("runs/orchestrator.py", "identity, sizes, which agent"),
            ("runs/admission.py", "event, message and run: once"),
            ("storage/sql/database.py", "committed, then acknowledged"),
            ("runs/dispatch.py", "a slot, a free lane: claimed"),
            ("runs/attempt.py", "grant, configuration, context"),
            ("plugins/connection.py", "run/start"),
        ),
        rises=False,
    ),
    Column(
        "The runner makes a host call",
        (
            ("plugins/connection.py", "host/state.set"),
            ("calls/executor.py", "recorded already? then that answer"),
            ("calls/gate.py", "run, attempt, grant, budget"),
            ("calls/state.py", "the work, as an Effect"),
            ("journal/call_log.py", "effect and entry together"),
            ("storage/sql/database.py", "committed, then answered"),
        ),
        rises=True,
    ),
    Column(
        "A result goes out",
        (
            ("plugins/connection.py", "run/result"),
            ("runs/attempt_results.py", "all that arrived together"),
            ("domain/result_sequence.py", "kept, dropped, or the end"),
            ("runs/projections.py", "transcript, state, artifacts"),
            ("journal/run_log.py", "batches, under the fencing token"),
            ("storage/sql/database.py", "committed, then shown"),
            ("journal/feed.py", "the ring, and each watcher's cursor"),
            ("http/event_stream.py", "server-sent events"),
        ),
        rises=True,
    ),
)
ROWS = max(len(column.steps) for column in COLUMNS)

COLUMN_WIDTH, BOX_WIDTH, BOX_HEIGHT, ROW_HEIGHT = 300, 270, 46, 64
"""In pixels, as the numbers below."""
TOP, BAND_HEIGHT = 104, 40
STYLE = (
    "text{fill:#24292f}rect{fill:#eef4fb;stroke:#7aa7d8}path{fill:none;stroke:#57606a;stroke-width:1.6;"
    "marker-end:url(#tip)}.band{fill:#f6f8fa;stroke:#d0d7de}.fact{fill:#ecfdf5;stroke:#34d399}"
    ".pure{fill:#fff8e6;stroke:#e0a91f}.back{stroke-dasharray:5 4}.file{font-family:ui-monospace,monospace;"
    "font-size:13px}.note{font-size:12px;opacity:.75}.title{font-weight:600}marker path{fill:#57606a;"
    "stroke:none}@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#16263a;stroke:#4b7fb8}"
    "path{stroke:#9198a1}marker path{fill:#9198a1}.band{fill:#161b22;stroke:#30363d}"
    ".fact{fill:#0d2b20;stroke:#2ea36f}.pure{fill:#2f2610;stroke:#b58514}}"
)


def tour_drawing(host: Path) -> str:
    """Draw the three ways. ValueError for a file that the package at `host` does not have."""
    if missing := sorted(
        {file for column in COLUMNS for file, _ in column.steps if not (host / file).is_file()}
    ):
        raise ValueError(f"the tour's drawing names {', '.join(missing)}: no such file")
    width, bottom = len(COLUMNS) * COLUMN_WIDTH + 10, _box_top(ROWS)
    height = bottom + BAND_HEIGHT + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="14">',
        "<title>An event, a host call and a result on their way through the files of the host</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0 0 10 5 0 10z"/></marker></defs>',
        *_band(40, width, "Clients: HTTP, terminal, streams"),
        *_band(bottom, width, "Plugin process: the runner, with the SDK or any other language"),
    ]
    for index, column in enumerate(COLUMNS):
        parts.extend(_column(index, column, bottom))
    return "\n".join([*parts, "</svg>", ""])


def _column(index: int, column: Column, bottom: int) -> Iterator[str]:
    middle = 5 + index * COLUMN_WIDTH + COLUMN_WIDTH // 2
    yield f'<text class="title" x="{middle}" y="26" text-anchor="middle">{column.title}</text>'
    rows = [ROWS - 1 - row if column.rises else row for row in range(len(column.steps))]
    for row, (file, note) in zip(rows, column.steps, strict=True):
        kind = {"storage": "fact", "domain": "pure"}.get(file.split("/")[0], "box")
        top = _box_top(row)
        yield (
            f'<rect class="{kind}" x="{middle - BOX_WIDTH // 2}" y="{top}" width="{BOX_WIDTH}" '
            f'height="{BOX_HEIGHT}" rx="6"/><text class="file" x="{middle}" y="{top + 19}" '
            f'text-anchor="middle">{file}</text><text class="note" x="{middle}" y="{top + 36}" '
            f'text-anchor="middle">{note}</text>'
        )
    tops = [_box_top(row) for row in rows]
    if column.rises:
        yield _arrow(middle, bottom, tops[0] + BOX_HEIGHT)
        yield from (_arrow(middle, one, other + BOX_HEIGHT) for one, other in pairwise(tops))
    else:
        yield _arrow(middle, 40 + BAND_HEIGHT, tops[0])
        yield from (_arrow(middle, one + BOX_HEIGHT, other) for one, other in pairwise(tops))
        yield _arrow(middle, tops[-1] + BOX_HEIGHT, bottom)
    if len(column.steps) == ROWS and column.rises:
        yield _arrow(middle, tops[-1], 40 + BAND_HEIGHT)
    elif column.rises:
        side, top = middle + BOX_WIDTH // 2, tops[-1] + BOX_HEIGHT // 2
        yield f'<path class="back" d="M{side} {top}h9V{bottom - 1}"/>'


def _band(top: int, width: int, text: str) -> Iterator[str]:
    yield f'<rect class="band" x="5" y="{top}" width="{width - 10}" height="{BAND_HEIGHT}" rx="8"/>'
    yield f'<text x="{width // 2}" y="{top + 25}" text-anchor="middle">{text}</text>'


def _arrow(x: int, start: int, end: int) -> str:
    return f'<path d="M{x} {start}V{end}"/>'


def _box_top(row: int) -> int:
    return TOP + row * ROW_HEIGHT
