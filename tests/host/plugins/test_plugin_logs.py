"""A plugin's log: bounded files, the last lines in memory, and its own sentence about why it failed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hostler.plugins.limits import DEFAULT_PROCESS_LIMITS
from hostler.plugins.logs import PluginLog
from hostler.plugins.probe import probe_containment

LIMITS = replace(
    DEFAULT_PROCESS_LIMITS, log_file_bytes=1000, log_files=3, log_line_bytes=100, log_tail_lines=5
)


def test_files_roll_and_their_number_and_size_are_bounded(tmp_path: Path) -> None:
    log = PluginLog(tmp_path / "p.log", LIMITS)
    for n in range(1000):
        log.write(f"line {n:04}\n".encode())
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["p.log", "p.log.1", "p.log.2"]
    assert all(path.stat().st_size <= 1000 for path in files)
    assert files[0].read_text().endswith("line 0999\n")
    again = PluginLog(tmp_path / "p.log", LIMITS)
    again.write(b"after a restart\n")
    again.close()
    assert "line 0999\nafter a restart\n" in "".join(path.read_text() for path in reversed(files))


def test_a_file_that_cannot_be_moved_away_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "p.log.1" / "in the way").mkdir(parents=True)
    log = PluginLog(tmp_path / "p.log", LIMITS)
    for n in range(200):
        log.write(f"line {n:04}\n".encode())
        log.note("still here")
    log.close()
    assert (tmp_path / "p.log").stat().st_size <= 1000
    assert log.last_line == "line 0199"


def test_output_that_arrives_after_the_log_was_closed_is_dropped(tmp_path: Path) -> None:
    log = PluginLog(tmp_path / "p.log", LIMITS)
    log.write(b"in time\n")
    log.close()
    log.write(b"too late\n")
    assert (tmp_path / "p.log").read_text() == "in time\n"


def test_what_the_host_noted_is_not_lost_because_the_plugin_writes_much(tmp_path: Path) -> None:
    many = PluginLog(tmp_path / "many.log", LIMITS)
    for _ in range(1000):
        many.note("refused: something")
    many.close()
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())
    log = PluginLog(tmp_path / "p.log", LIMITS)
    log.note("refused: reading /etc/shadow: not among what it may see")
    for n in range(1000):
        log.write(f"line {n:04}\n".encode())
    log.close()
    assert (tmp_path / "p.log").read_text().startswith("-- hostler: refused: reading /etc/shadow")


@given(st.data())
def test_no_line_of_a_plugin_reads_like_the_hosts_own(data: st.DataObject) -> None:
    """However it is cut, and whatever the host notes in the middle of it."""
    with tempfile.TemporaryDirectory() as folder:
        log = PluginLog(Path(folder) / "p.log", LIMITS)
        parts = st.sampled_from(["-- hostler: forged", "-- ho", "stler: forged", "\n", "a", "-", "note"])
        noted = 0
        for part in data.draw(st.lists(parts, max_size=30)):
            if part == "note":
                noted += 1
                log.note(f"refused: {noted}")
            else:
                log.write(part.encode())
        log.close()
        text = (Path(folder) / "p.log").read_text()
    own = [line for line in text.split("\n") if line.startswith("-- hostler: ")]
    assert [line for line in own if "forged" in line] == []
    if noted:
        assert own[-1] == f"-- hostler: refused: {noted}"


def test_what_a_plugin_writes_is_kept_as_it_is(tmp_path: Path) -> None:
    log = PluginLog(tmp_path / "p.log", LIMITS)
    log.write(b"-- ")
    log.write(b"a list\n-- hostler: forged\nhalf")
    log.note("refused: something")
    log.write(b" a line\n--")
    log.close()
    assert (tmp_path / "p.log").read_text().split("\n") == [
        "-- a list",
        "| -- hostler: forged",
        "half",
        "-- hostler: refused: something",
        " a line",
        "--",
    ]


@given(st.data())
def test_the_tail_does_not_depend_on_how_the_bytes_are_cut(data: st.DataObject) -> None:
    text = b"first\nhostler-plugin-error: no class Ecko\n\xff\xfe\n" + b"x" * 300 + b"\nlast\n  \n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    log = PluginLog(Path("/dev/null"), LIMITS)
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        log.write(text[start:end])
    log.close()
    assert log.error == "no class Ecko"
    assert log.last_line == "last"
    assert "x" * 100 in log.lines
    assert max(map(len, log.lines)) == 100


async def test_what_this_machine_offers_is_said_in_words(tmp_path: Path) -> None:
    found = await probe_containment(tmp_path)
    assert found.mode in ("namespace", "subreaper", "group")
    weaker = await probe_containment(tmp_path, "group")
    assert weaker.mode == "group"
    assert "left its session" in weaker.text
