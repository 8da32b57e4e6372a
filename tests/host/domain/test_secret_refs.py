"""References to secrets: what is one, what is wrong with one, and what was probably meant as one."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.secret_refs import (
    is_reference,
    looks_like_reference,
    reference_mistake,
    reference_names,
    unset_variable,
)


@pytest.mark.parametrize(
    ("value", "is_one"),
    [("env:A", True), ("file:/a", True), ("secret://a", True), ("ENV:A", False), ("", False), (None, False)],
)
def test_a_reference_is_known_by_its_prefix(value: Any, is_one: bool) -> None:
    assert is_reference(value) is is_one
    assert reference_names({"b": value, "a": "env:X", "c": 1}) == (["a", "b"] if is_one else ["a"])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("env:API_KEY", None),
        ("env:", "names no environment variable"),
        ("env:A B", "names no environment variable"),
        ("env:A=b", "names no environment variable"),
        ("file:/run/key", None),
        ("file: ", "names no file"),
        ("file:a\x00b", "names no file"),
        ("secret://a", None),
        ("secret://a/b", "names no stored secret"),
        ("secret://", "names no stored secret"),
        ("secret://a\n", "names no stored secret"),
        ("the secret itself", None),
    ],
)
def test_a_mistake_is_named(value: str, words: str | None) -> None:
    found = reference_mistake(value)
    assert found is None if words is None else words in (found or "")


@pytest.mark.parametrize("value", ["$KEY", "${KEY}", "env/KEY", "ENV: KEY", "file=x", "secret:x", " env:KEY"])
def test_a_text_that_is_nearly_a_reference_is_noticed(value: str) -> None:
    assert looks_like_reference(value)


@pytest.mark.parametrize("value", ["env:KEY", "sk-1234", "environment", "$ 5"])
def test_other_texts_are_secrets_or_references(value: str) -> None:
    assert not looks_like_reference(value)


def test_a_secret_in_place_of_a_name_is_not_shown() -> None:
    assert "API_KEY" in unset_variable("API_KEY")
    assert "sk-1/2" not in unset_variable("sk-1/2")
