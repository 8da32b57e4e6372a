"""Logs for people: a record is a line, whatever somebody else's words in it hold."""

from __future__ import annotations

import logging

from hostler.cli.logs import PlainLines


def test_foreign_words_make_no_line_of_their_own_and_move_no_cursor() -> None:
    said = "it ended: I die\n2026-01-01 INFO all is well\x1b[2J\x07 ä\u202e"
    record = logging.LogRecord("hostler", logging.WARNING, "x.py", 1, "server %s", (said,), None)
    line = PlainLines("%(levelname)s %(message)s").format(record)
    assert line == "WARNING server it ended: I die\\n2026-01-01 INFO all is well\\x1b[2J\\x07 ä\\u202e"
    assert record.getMessage() == f"server {said}"  # for other writers


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        told = (type(error), error, error.__traceback__)
    record = logging.LogRecord("hostler", logging.ERROR, "x.py", 1, "it failed", (), told)
    lines = PlainLines("%(message)s").format(record).splitlines()
    assert (lines[0], lines[-1]) == ("it failed", "ValueError: no")
