"""YAML from strangers: no aliases, no depth without end, and errors that name the line."""

from __future__ import annotations

import pytest

from hostler.domain.untrusted_yaml import MAX_DEPTH, read_foreign_yaml


def test_plain_values_are_read() -> None:
    assert read_foreign_yaml("a: [1, two, null]\nb: {c: true}\n") == {"a": [1, "two", None], "b": {"c": True}}
    assert read_foreign_yaml(b"") is None
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert read_foreign_yaml(deepest) is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x\n", r"line 2: it has an alias \(\*x\)"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "line 1: it is nested over"),
        ("a: [1\n", "line 2"),
        ("a: !!python/object:os.system x\n", "line 1"),
        ("a: \x00", "."),
    ],
)
def test_what_could_harm_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_foreign_yaml(text)
