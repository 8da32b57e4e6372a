"""What a terminal is shown of a pause: all of it, and nothing that could hide itself."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.cli.pause_show import pretty, show_call, show_pause, what_next
from hostler.cli.run_output import until_paused
from hostler.cli.terminal_text import ESCAPED, visible
from hostler.journal.feed import StoredResult

PAUSE = {
    "id": "p1",
    "run_id": "r1",
    "status": "open",
    "revision": 2,
    "agent": "shop",
    "requester": "rita",
    "expires_at": None,
    "calls": [
        {
            "call_id": f"k{number}",
            "kind": kind,
            "tool": tool,
            "title": "Book",
            "args": {"seats": 1},
            "args_hash": "d1g35t",
            "decision": "undecided",
            "may_decide": number == 1,
            "approvals_needed": 2,
            "votes": [{"subject": "ann", "vote": "approve", "at": 0.0}],
        }
        for number, (kind, tool) in enumerate(
            [
                ("approval", "shop.book"),
                ("question", None),
                ("client_tool", "shop.scan"),
                ("in_doubt", "shop.pay"),
            ],
            start=1,
        )
    ],
}


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_every_character_of_what_is_shown_can_be_seen(text: str) -> None:
    shown = visible(text)
    assert not [char for char in shown if unicodedata.category(char) in ESCAPED]
    assert [char for char in visible(text, lines=True) if unicodedata.category(char) in ESCAPED] == [
        "\n"
    ] * text.count("\n")
    plain = [char for char in text if unicodedata.category(char) not in ESCAPED]
    assert len(shown) >= len(plain)


def test_json_is_shown_whole_and_as_people_write_it() -> None:
    assert pretty({"name": "Zoë", "x": "\u202eabc"}) == '{\n  "name": "Zoë",\n  "x": "\\u202eabc"\n}'


def test_a_pause_is_shown_with_its_digests_and_how_far_its_quorum_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_pause(PAUSE)
    shown = capsys.readouterr().out
    for part in ("pause p1", "revision 2", "of shop", "shop.book", '"seats": 1', "digest    d1g35t"):
        assert part in shown
    assert "1 of 2 ann" in shown
    assert shown.count("nothing to decide") == 3


@pytest.mark.parametrize(
    ("review", "says"), [(None, "outcome   unknown"), ("in_doubt", "needs review: in doubt")]
)
def test_a_call_that_may_have_been_made_is_shown_as_such(
    review: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_call({**PAUSE["calls"][0], "execution": "in_doubt", "review": review})  # type: ignore[index]
    shown = capsys.readouterr()
    assert says in shown.out + shown.err
    assert ("outcome   unknown" in shown.out) == (review is None)


def test_what_to_do_next_is_said_in_commands(capsys: pytest.CaptureFixture[str]) -> None:
    what_next(PAUSE)
    told = capsys.readouterr().err
    for command in ("show", "approve", "deny", "answer", "result", "resolve"):
        assert f"hostler pauses {command} p1" in told
    assert "hostler runs tail r1" in told


async def test_a_command_leaves_a_run_that_waits() -> None:
    async def results() -> AsyncIterator[StoredResult]:
        for number, kind in enumerate(["message.delta", "run.paused", "attempt.started"], start=1):
            yield StoredResult(number, kind, b"{}")

    async def scenario() -> list[str]:
        return [result.type async for result in until_paused(results())]

    assert await scenario() == ["message.delta", "run.paused"]
