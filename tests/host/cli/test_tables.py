"""Tables and fields: at a terminal of some width, and piped."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from rich.console import Console

from hostler.cli import tables
from hostler.cli.tables import write_done, write_fields, write_items, write_table

ID = "01a203ad-ae8f-7545-9277-a285cee0c067"
PROSE = "How to write a good letter to a landlord about a heating that is broken in winter."
Terminal = Callable[[int], io.StringIO]


class Screen(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard output becomes a terminal of so many columns."""

    def of_width(columns: int) -> io.StringIO:
        shown = Screen()
        console = Console(file=shown, width=columns, highlight=False, color_system=None)
        monkeypatch.setattr(tables, "out", lambda: console)
        monkeypatch.setattr("sys.stdout", shown)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("NO_COLOR", "1")
        return shown

    return of_width


def lines(shown: io.StringIO) -> list[str]:
    return [line.rstrip() for line in shown.getvalue().splitlines()]


def test_ids_stay_whole_and_prose_is_wrapped_at_words(terminal: Terminal) -> None:
    shown = terminal(80)
    write_table(("run", "what it is for"), [(ID, PROSE)], none="none")
    found = lines(shown)
    assert found[1].startswith(f"{ID}  How to write")
    assert all(len(line) <= 80 for line in found)
    assert " ".join(line[38:] for line in found[1:]) == PROSE


def test_what_holds_nothing_or_can_be_spared_gives_way(terminal: Terminal) -> None:
    rows = [(ID, "", "completed", "x" * 30)]
    columns = ("run", "code", "status", "owner")
    shown = terminal(70)
    write_table(columns, rows, none="none", spare=("owner",))
    assert lines(shown) == ["run" + " " * 35 + "status", f"{ID}  completed"]
    shown = terminal(90)
    write_table(columns, rows, none="none", spare=("owner",))
    assert lines(shown)[1] == f"{ID}  completed  {'x' * 30}"


def test_a_terminal_too_narrow_loses_nothing(terminal: Terminal) -> None:
    shown = terminal(20)
    write_table(("run", "status"), [(ID, "completed")], none="none")
    assert lines(shown)[1] == f"{ID}  completed"


def test_numbers_stand_right_and_times_are_short(terminal: Terminal) -> None:
    now = datetime.now(UTC)
    shown = terminal(80)
    write_table(
        ("file", "bytes", "at"), [("a", 5, now), ("b", 1234, datetime(2001, 2, 3, tzinfo=UTC))], none=""
    )
    assert lines(shown)[1:] == [f"a         5  {now:%m-%d %H:%M}", "b      1234  2001-02-03"]


def test_what_a_stranger_wrote_moves_no_cursor(terminal: Terminal) -> None:
    shown = terminal(80)
    write_table(("agent",), [("\x1b[2Jgood\u202edab",)], none="none")
    write_fields((("agent", "\x1b[2J"),))
    assert lines(shown)[1:] == ["\\u001b[2Jgood\\u202edab", "agent           \\u001b[2J"]


def test_fields_are_wrapped_beside_their_names_and_empty_ones_left_out(terminal: Terminal) -> None:
    shown = terminal(50)
    digest = "a" * 64
    write_fields((("for", PROSE), ("digest", digest), ("problem", None), ("form", []), ("can", ["a", "b"])))
    assert lines(shown) == [
        "for             How to write a good letter to a",
        "                landlord about a heating that is",
        "                broken in winter.",
        f"digest          {digest}",
        "can             a, b",
    ]


def test_a_pipe_gets_all_columns_between_tabs(capfd: pytest.CaptureFixture[str]) -> None:
    at = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    write_table(("a", "b", "c", "d"), [("x\ny", None, 3, at)], none="none", spare=("a",))
    assert capfd.readouterr().out == "x y\t\t3\t2026-02-03 04:05:06\n"


def test_json_is_all_there_is_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    write_items([{"a": 1}], {"a": "a"}, as_json=True, none="none")
    write_items([], {"a": "a"}, as_json=True, none="none")
    write_done({"deleted": True}, "it is deleted", as_json=True)
    said = capfd.readouterr()
    assert [json.loads(line) for line in said.out.splitlines()] == [[{"a": 1}], [], {"deleted": True}]
    assert said.err == ""
