"""What `hostler run` writes for the results of a run."""

from __future__ import annotations

import json

import pytest

from hostler.cli.run_output import Show
from hostler.journal.feed import StoredResult


def shown(*results: tuple[str, dict[str, object]]) -> str:
    written: list[str] = []
    show = Show(write=written.append)
    for sequence, (kind, data) in enumerate(results, 1):
        whole = {"run_id": "r", "type": kind, "sequence": sequence, "data": data}
        show.result(StoredResult(sequence, kind, json.dumps(whole).encode()))
    show.end()
    return "".join(written)


def piece(text: str) -> tuple[str, dict[str, object]]:
    return "message.delta", {"chunk": {"role": "assistant", "content": text}}


def whole(text: str) -> tuple[str, dict[str, object]]:
    return "message.completed", {"message": {"role": "assistant", "content": text, "message_id": "m1"}}


LOG = ("log", {"level": "info", "text": "looking"})


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([piece("a "), piece("b "), whole("a b")], "a b\n"),
        ([piece("a "), piece("b "), whole("a b!")], "a b!\n"),
        ([piece("a "), piece("b "), whole("other")], "a b\nother\n"),
        ([whole("a b")], "a b\n"),
        ([piece("a\n\n"), piece("b"), whole("a\n\nb")], "a\n\nb\n"),
        ([piece("a "), LOG, piece("b"), whole("a b")], "a\nb\n"),
        ([piece("a"), whole("a"), piece("b"), whole("b")], "a\nb\n"),
        ([piece("a "), piece("b ")], "a b\n"),
        (
            [
                piece("a "),
                ("attempt.started", {"attempt": 2, "cause": "x", "discard_after": 0}),
                piece("a"),
                whole("a"),
            ],
            "a\na\n",
        ),
        ([("message.telepathy", {"x": 1}), whole("a")], "a\n"),
    ],
)
def test_the_whole_message_stands_there_once(
    results: list[tuple[str, dict[str, object]]], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(*results) == text
    assert capsys.readouterr().out == ""  # asides go to standard error


def test_a_traceback_in_the_log_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    log: tuple[str, dict[str, object]] = (
        "log",
        {"level": "error", "text": "Traceback (most recent call last): ..."},
    )
    assert (
        shown(log, ("run.failed", {"code": "runner.error", "error": "it\nbroke", "retryable": False})) == ""
    )
    assert capsys.readouterr().err == "error: it broke\n"
