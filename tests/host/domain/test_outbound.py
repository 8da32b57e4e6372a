"""How an answer becomes messages of a chat, up to a bound."""

from __future__ import annotations

import pytest

from hostler.domain.outbound import MAX_MESSAGES, TOO_LONG, ReplyTarget, text_messages
from hostler_protocol.channels import ChannelTarget

TO = ReplyTarget("chat", ChannelTarget(chat_id="c"), 80, "characters", files=False)


@pytest.mark.parametrize("lines", [MAX_MESSAGES - 1, MAX_MESSAGES])
def test_an_answer_that_fits_is_whole(lines: int) -> None:
    said = [f"{number:03} " + "x" * 70 for number in range(lines)]
    assert [one.text for one in text_messages("\n\n".join(said), TO)] == said


def test_an_answer_that_does_not_fit_says_so_at_its_end() -> None:
    said = [f"{number:03} " + "x" * 70 for number in range(MAX_MESSAGES + 1)]
    found = [one.text for one in text_messages("\n\n".join(said), TO)]
    assert found == [*said[: MAX_MESSAGES - 1], TOO_LONG]
