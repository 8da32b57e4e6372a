"""Write docs/interfaces.md: what each standard interface does, with the tests that show it.

A test claims cells of the table with `@pytest.mark.shows("a2a", "text", "usage")`: one interface or several,
and one cell or several of each of them. A module may claim with `pytestmark`. A cell without a test is in
`WITHOUT`, with the reason; any other is an error, and so is a reason for a cell that has a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from security_page import marked

INTERFACES = {
    "openai-chat": ("OpenAI Chat Completions", "openai-chat.md"),
    "openai-responses": ("OpenAI Responses", "openai-responses.md"),
    "ag-ui": ("AG-UI", "ag-ui.md"),
    "ai-sdk": ("AI SDK", "ai-sdk.md"),
    "mcp": ("MCP", "mcp.md"),
    "a2a": ("A2A", "a2a.md"),
    "langgraph": ("LangGraph", "langgraph.md"),
    "acp": ("ACP", "zed.md"),
    "websocket": ("WebSocket", "../streams.md"),
}
CELLS = {
    "text": "text, streamed and whole",
    "unicode": "Chinese and emoji",
    "tools": "tools of the host",
    "client-tools": "tools of the client",
    "approval": "approvals",
    "edited": "approvals with edited arguments",
    "question": "questions",
    "budget": "more budget",
    "in-doubt": "calls in doubt",
    "error": "runs that fail",
    "cancel": "cancel",
    "steer": "messages for a run at work",
    "disconnect": "a disconnect that cancels",
    "files-in": "files in",
    "files-out": "files out",
    "usage": "usage",
    "repeated": "the same request twice: one run",
    "long-run": "long runs, and coming back to them",
    "wrong-key": "a wrong key",
    "unknown-agent": "an unknown agent",
    "hostile": "hostile requests",
}
WITHOUT = {
    ("mcp", "client-tools"): "has no tools of clients: a call to one of another client waits for that",
    ("acp", "edited"): "has no word for it: a permission is given or not",
    ("acp", "repeated"): "has no word for it: a prompt that is sent once more is another message",
    ("websocket", "disconnect"): "one connection is for many runs: none ends with it, `cancel` ends one",
}
INTRODUCTION = """\
# Standard interfaces, and the tests that show them

What each of the interfaces for existing clients does, and the tests that show it, most of them with the
client that the makers of the interface publish. Where one has no word for what people decide, a text says
where to decide, and the answer goes on after it: the tests show that. `-`: none; the reason is below.
One run in all of them at once, over two kills of the host: `tests/journeys/test_all_dialects.py`. A test says
what it shows with `pytest.mark.shows`."""


def interface_page(root: Path) -> Iterator[str]:
    """Give the parts of docs/interfaces.md. ValueError names a cell without test or reason, or with both."""
    found = shown(root / "tests")
    _check(found)
    yield INTRODUCTION + "\n"
    yield from _row(["", *(f"[{name}](clients/{page})" for name, page in INTERFACES.values())])
    yield from _row(["---"] * (len(INTERFACES) + 1))
    for cell, what in CELLS.items():
        yield from _row([what, *("yes" if (one, cell) in found else "-" for one in INTERFACES)])
    for one, (name, _) in INTERFACES.items():
        yield f"\n## {name}\n"
        yield from _row(["what", "tests"])
        yield from _row(["---", "---"])
        for cell, what in CELLS.items():
            tests = ", ".join(f"`{test}`" for test in found.get((one, cell), ()))
            yield from _row([what, tests or WITHOUT[one, cell]])


def shown(tests: Path) -> dict[tuple[str, str], list[str]]:
    """Return the tests that show each cell of each interface. ValueError names a claim that is none."""
    found: dict[tuple[str, str], list[str]] = {}
    for place, name, arguments in marked(tests, "shows"):
        test = place if name is None else f"{place}::{name}"
        interfaces = [one for one in arguments if one in INTERFACES]
        cells = [one for one in arguments if one in CELLS]
        if len(interfaces) + len(cells) != len(arguments) or not interfaces or not cells:
            raise ValueError(f"{test}: shows{arguments} names no interface, no cell, or something else")
        for one in interfaces:
            for cell in cells:
                found.setdefault((one, cell), []).append(test)
    return found


def _check(found: Mapping[tuple[str, str], list[str]]) -> None:
    for one in INTERFACES:
        for cell in CELLS:
            if ((one, cell) in found) == ((one, cell) in WITHOUT):
                problem = "a test and a reason for having none" if (one, cell) in found else "no test"
                raise ValueError(f"docs/interfaces.md: {one}, {cell}: {problem}")


def _row(cells: list[str]) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"
