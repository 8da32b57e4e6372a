"""Logs for people: a record is a line, whatever somebody else's words in it hold."""

from __future__ import annotations

import logging
import sys

import pytest

from hostler.cli.logs import LIKE_LINES_BURST, MAX_KINDS, BoundedLines, JsonLines, PlainLines
from hostler.secrets import known_values

pytestmark = pytest.mark.gate("redaction", "open-connections")


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


def test_like_lines_that_strangers_cause_are_bounded_and_counted() -> None:
    now = 0.0
    bounded = BoundedLines(lambda: now)

    def said(logger: str, text: str, *values: object) -> str | None:
        record = logging.LogRecord(logger, logging.WARNING, "x.py", 1, text, values, None)
        return record.getMessage() if bounded.filter(record) else None

    burst = int(LIKE_LINES_BURST)
    lines = [said("uvicorn.error", "no HTTP from %s", number) for number in range(burst + 500)]
    assert [line for line in lines if line] == [f"no HTTP from {number}" for number in range(burst)]
    assert said("hostler.http", "a stream was stuck") == "a stream was stuck"
    now += 1.0
    assert said("uvicorn.error", "no HTTP from %s", "x") == "no HTTP from x (and 500 more like it)"
    assert said("uvicorn.error", "no HTTP from %s", "y") is None
    assert [said("hostler.runs", "run %s failed", number) for number in range(burst * 2)].count(None) == 0
    for number in range(MAX_KINDS * 3):
        for _ in range(burst + 1):
            said("asyncio", f"{number}")
    assert len(bounded._left_out) <= MAX_KINDS


@pytest.mark.parametrize("formatter", [JsonLines(), PlainLines("%(message)s")], ids=["json", "plain"])
def test_a_line_has_no_secret_nor_has_its_traceback(
    formatter: logging.Formatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, secret = known_values.KnownValues(), 'hunter2 "of the log"\n'
    known.remember(secret)
    monkeypatch.setattr(known_values, "KNOWN", known)
    try:
        raise RuntimeError(f"cannot sign in with {secret!r} and hostler_{'a1' * 22}")
    except RuntimeError:
        record = logging.LogRecord(
            "x", logging.ERROR, "x.py", 1, "failed for %s, %r", (secret, [secret]), sys.exc_info()
        )
    line = formatter.format(record)
    assert "failed for ***" in line
    assert "cannot sign in with" in line
    assert "hunter2" not in line
    assert "a1a1" not in line
