"""Cursors: what was issued is read back where it belongs, and nothing else is accepted anywhere."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.calls.cursors import Cursors, Position
from hostler_protocol.errors import InvalidArgumentError

pytestmark = pytest.mark.gate("cursors")

KEY = bytes(range(32))
CURSORS = Cursors(KEY)
ALPHABET = set(string.ascii_letters + string.digits + "_-")
names = st.text(max_size=20)
scopes = st.recursive(
    st.none() | st.integers(-5, 5) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
positions: st.SearchStrategy[Position] = (
    st.integers(0, 2**62) | names | st.lists(st.integers(0, 2**62) | names, max_size=3)
)


@given(names, scopes, positions)
def test_a_cursor_is_read_back_where_it_was_issued_and_is_safe_in_a_url(
    api: str, scope: object, position: Position
) -> None:
    cursor = CURSORS.scoped(api, scope).issue(position)
    assert set(cursor) <= ALPHABET
    assert Cursors(KEY).scoped(api, scope).read(cursor) == position


@given(names, scopes, positions, st.data())
def test_no_flipped_bit_is_accepted(api: str, scope: object, position: Position, data: st.DataObject) -> None:
    issuer = CURSORS.scoped(api, scope)
    cursor = issuer.issue(position)
    place = data.draw(st.integers(0, len(cursor) - 1))
    bit = data.draw(st.integers(0, 7))
    flipped = cursor[:place] + chr(ord(cursor[place]) ^ (1 << bit)) + cursor[place + 1 :]
    with pytest.raises(InvalidArgumentError, match="before_cursor"):
        issuer.read(flipped, "before_cursor")


@given(names, scopes, names, scopes, positions)
def test_a_cursor_is_refused_wherever_it_does_not_belong(
    api: str, scope: object, other_api: str, other_scope: object, position: Position
) -> None:
    cursor = CURSORS.scoped(api, scope).issue(position)
    if (api, repr(scope)) != (other_api, repr(other_scope)):
        with pytest.raises(InvalidArgumentError):
            CURSORS.scoped(other_api, other_scope).read(cursor)
    with pytest.raises(InvalidArgumentError):
        Cursors(bytes(32)).scoped(api, scope).read(cursor)


@given(st.text(max_size=200))
def test_text_that_was_never_issued_is_refused_with_a_clear_error(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^after_cursor "):
        CURSORS.scoped("history.page", "c1").read(text, "after_cursor")


@given(positions, st.sampled_from(["=", "==", " ", "\n", "A", "."]))
def test_a_cursor_has_one_spelling(position: Position, extra: str) -> None:
    issuer = CURSORS.scoped("event.page", None)
    for text in (issuer.issue(position) + extra, extra + issuer.issue(position)):
        with pytest.raises(InvalidArgumentError):
            issuer.read(text)


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        ("", "before_cursor is not a cursor"),
        ("é" * 40, "before_cursor is not a cursor"),
        ("A" * 2000, "before_cursor is not a cursor"),
        (
            CURSORS.scoped("event.page", "c1").issue(7),
            "before_cursor was issued for another call than history.page",
        ),
        (CURSORS.scoped("history.page", "c2").issue(7), "before_cursor was issued for another scope"),
        (
            Cursors(bytes(32)).scoped("history.page", "c1").issue(7),
            "before_cursor is damaged, or not of this",
        ),
    ],
)
def test_the_error_says_which_cursor_is_wrong_and_why(cursor: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        CURSORS.scoped("history.page", "c1").read(cursor, "before_cursor")


def test_a_position_of_another_kind_is_refused_not_misread() -> None:
    issuer = CURSORS.scoped("state.list", "s")
    assert issuer.read_text(issuer.issue("k")) == "k"
    assert issuer.read_sequence(issuer.issue(9)) == 9
    with pytest.raises(InvalidArgumentError):
        issuer.read_text(issuer.issue(9))
    with pytest.raises(InvalidArgumentError):
        issuer.read_sequence(issuer.issue("k"))
