"""docs/simulation.svg: what a simulated world holds, and what becomes of a life."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tour_drawing import STYLE

WIDTH, HEIGHT = 910, 560
LINE = 17
"""In pixels, as all numbers below."""


@dataclass(frozen=True, slots=True)
class Box:
    """`kind`: product code, a part of the simulation, or facts. `file`: where it is; None: nowhere."""

    x: int
    y: int
    width: int
    title: str
    notes: tuple[str, ...]
    kind: str = "sim"
    file: str | None = None

    @property
    def height(self) -> int:
        """Room for the title and its notes."""
        return 32 + LINE * len(self.notes)


ENGINE, TESTS = "packages/host/src/hostler/simulation", "tests/simulation"
BOXES = (
    Box(20, 16, 120, "a seed", ("a number",)),
    Box(
        190,
        16,
        400,
        "a plan",
        ("agents, hosts, and what happens when:", "messages, people, operators, faults"),
        file=f"{TESTS}/plan.py",
    ),
    Box(
        25,
        168,
        180,
        "outside",
        ("clients and readers", "people who decide", "operators, strangers"),
        file=f"{TESTS}/workloads/people.py",
    ),
    Box(
        255,
        168,
        180,
        "one to three hosts",
        ("the product's own code,", "killed, frozen, stopped", "at any moment"),
        "pure",
        "packages/host/src/hostler/host/host.py",
    ),
    Box(
        485,
        168,
        180,
        "plugin processes",
        ("the SDK's own code,", "runners that follow steps,", "and hostile ones"),
        "pure",
        "packages/sdk/src/hostler_sdk/client.py",
    ),
    Box(
        715,
        168,
        170,
        "services",
        ("tools, models, webhooks:", "fail, hang, lie, answer", "too late"),
        file=f"{TESTS}/outside.py",
    ),
    Box(
        255,
        300,
        180,
        "disks",
        ("SQLite, whose commits", "a power cut may take"),
        file=f"{ENGINE}/disk.py",
    ),
    Box(
        485,
        300,
        400,
        "time and chance",
        (
            "each wait, thread and message takes a time from the",
            "seed; processes of a machine share its clock",
        ),
        file=f"{ENGINE}/loop.py",
    ),
    Box(20, 442, 190, "the facts", ("what the databases hold",), "fact"),
    Box(20, 502, 190, "the log", ("what the outside saw",), "fact", f"{TESTS}/outside.py"),
    Box(
        290,
        464,
        240,
        "judges",
        ("read both, with SQL of their own,", "and say what must not be"),
        file=f"{TESTS}/judges/__init__.py",
    ),
    Box(
        610,
        464,
        280,
        "a finding",
        ("its seed, the life cut down to a", "short story, and a test to paste"),
        file=f"{TESTS}/shrink.py",
    ),
)
ARROWS = (
    "M140 41H190",
    "M390 82V112",
    "M205 210H255",
    "M435 210H485",
    "M665 210H715",
    "M345 251V300",
    "M115 400V442",
    "M210 466H250V490H290",
    "M210 526H250V506H290",
    "M530 497H610",
)


def simulation_drawing(root: Path) -> str:
    """Draw it. ValueError for a file that the project at `root` does not have."""
    if missing := sorted(box.file for box in BOXES if box.file and not (root / box.file).is_file()):
        raise ValueError(f"the drawing of the simulation names {', '.join(missing)}: no such file")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'font-family="system-ui, sans-serif" font-size="14">',
            "<title>From a seed to a world of hosts and plugins, and from what is left to findings</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" '
            'orient="auto"><path d="M0 0 10 5 0 10z"/></marker></defs>',
            '<rect class="band" x="5" y="112" width="900" height="288" rx="8"/>',
            '<text class="title" x="25" y="138">A world: one thread, one event loop, simulated time</text>',
            '<text class="note" x="25" y="156">yellow: code that is shipped; blue: what stands for the '
            "rest</text>",
            *(f'<path d="{arrow}"/>' for arrow in ARROWS),
            *map(_box, BOXES),
            "</svg>",
            "",
        ]
    )


def _box(box: Box) -> str:
    lines = "".join(
        f'<text class="note" x="{box.x + 12}" y="{box.y + 22 + LINE * number}">{note}</text>'
        for number, note in enumerate(box.notes, 1)
    )
    kind = "box" if box.kind == "sim" else box.kind
    return (
        f'<rect class="{kind}" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"/>'
        f'<text class="title" x="{box.x + 12}" y="{box.y + 22}">{box.title}</text>{lines}'
    )
