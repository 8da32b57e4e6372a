"""The end of a log, and what follows: every line once, over growth, rotation and floods."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.http.limits import MAX_LOG_TAIL_BYTES
from hostler.http.log_tail import read_log
from hostler_protocol.errors import InvalidArgumentError


def test_lines_come_once_and_when_they_are_complete(tmp_path: Path) -> None:
    log = tmp_path / "log"
    absent = read_log(log, 10)
    assert (absent.lines, absent.skipped) == ([], False)
    assert read_log(log, 10, absent.next) == absent, "it may be asked again until there is a log"
    log.write_bytes(b"one\ntwo\r\nthree")
    assert read_log(log, 10, absent.next)[::2] == (["one", "two"], False)
    first = read_log(log, 2)
    assert first.lines == ["two", "three"], "what a process wrote last before it died may lack its end"
    assert read_log(log, 10, first.next).lines == []
    with log.open("ab") as file:
        file.write(b"ty\nfo")
    again = read_log(log, 10, first.next)
    assert (again.lines, again.skipped) == (["threety"], False), "whole, not the end of it alone"
    assert read_log(log, 10, again.next).lines == []
    with log.open("ab") as file:
        file.write(b"ur\n\nf\xffve\n")
    third = read_log(log, 10, again.next)
    assert third.lines == ["four", "", "f\ufffdve"]
    assert read_log(log, 10, third.next) == ([], third.next, False)


def test_another_file_of_the_name_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old\n")
    before = read_log(log, 10)
    log.rename(tmp_path / "log.1")
    log.write_bytes(b"new\n")
    after = read_log(log, 10, before.next)
    assert (after.lines, after.skipped) == (["new"], True)
    log.write_bytes(b"x\n")  # it was cut
    assert read_log(log, 10, after.next).lines == ["x"]
    log.unlink()
    assert read_log(log, 10, after.next).lines == []


def test_what_is_too_much_is_left_out_and_said(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n")
    before = read_log(log, 10)
    with log.open("ab") as file:
        file.writelines(b"line %d\n" % number for number in range(200_000))
    after = read_log(log, 3, before.next)
    assert (after.lines, after.skipped) == (["line 199997", "line 199998", "line 199999"], True)
    with log.open("ab") as file:
        file.write(b"x" * (2 * MAX_LOG_TAIL_BYTES))  # a line that does not end
    endless = read_log(log, 10, after.next)
    assert endless.skipped
    assert sum(map(len, endless.lines)) <= MAX_LOG_TAIL_BYTES
    assert read_log(log, 10, endless.next) == ([], endless.next, False)


@pytest.mark.parametrize("after", ["", "x", "12", "-5", "zz-1", "a-1-2", "a-" + "9" * 30, "../../etc"])
def test_what_is_no_place_is_refused(tmp_path: Path, after: str) -> None:
    with pytest.raises(InvalidArgumentError, match="what an earlier answer gave"):
        read_log(tmp_path / "log", 10, after)
