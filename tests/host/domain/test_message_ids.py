"""Ids of messages: given, filled in, known again, and bounded."""

from __future__ import annotations

import pytest

from hostler.domain import message_ids
from hostler.domain.message_ids import MessageIds
from hostler_protocol.content import Message
from hostler_protocol.errors import InvalidArgumentError


def said(message_id: str | None = None) -> Message:
    return Message(role="assistant", content="a", message_id=message_id)


def test_a_message_without_an_id_is_given_one_that_is_free() -> None:
    ids = MessageIds({"m1"})
    ids.keep(["m2"])
    message, is_new = ids.identified(said())
    assert (message.message_id, is_new) == ("m3", True)
    assert ids.identified(said())[0].message_id == "m4"


def test_a_message_that_is_complete_is_not_new() -> None:
    ids = MessageIds({"before"})
    assert [ids.identified(said(name))[1] for name in ("before", "a", "a")] == [False, True, False]
    with pytest.raises(InvalidArgumentError):
        ids.identified(said(""))


def test_as_many_are_remembered_as_a_run_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_ids, "MAX_MESSAGES_PER_RUN", 2)
    ids = MessageIds(set())
    filled = []
    for name in ("a", "b", "c"):
        filled.append(ids.is_full)
        ids.identified(said(name))
    assert filled == [False, False, True]
    assert ids.complete == {"a", "b"}
