"""Names of tools as functions of model services."""

from __future__ import annotations

from hostler_sdk.function_names import function_names


def test_function_names_are_unique_and_short() -> None:
    names = function_names(["a.b", "a_b", "a-b", "a/b", "ü", "x" * 70, "x" * 64 + "y"])
    assert names["a_b"] == "a_b"
    assert len(set(names.values())) == 7
    assert all(len(name) <= 64 and name.isascii() for name in names.values())
