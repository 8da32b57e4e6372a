"""Secrets behind references: read as late as possible, and never part of a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.secrets.resolver import SecretUnreadableError, resolve_secret, unreadable_secret
from hostler_protocol.errors import InvalidArgumentError


@pytest.mark.gate("resolved-secrets")
def test_secrets_are_looked_up_and_never_repeated(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(" from a file\n")
    assert resolve_secret(None) is None
    assert resolve_secret("env:KEY", {"KEY": "from outside"}) == "from outside"
    assert resolve_secret(f"file:{file}") == "from a file"
    assert resolve_secret("sk-written-out") == "sk-written-out"
    for reference, environment in (
        ("env:KEY", {"KEY": ""}),
        ("file:/nowhere/at/all", {}),
        ("secret://a", {}),
    ):
        with pytest.raises(InvalidArgumentError) as refused:
            resolve_secret(reference, environment)
        assert reference in refused.value.message


@pytest.mark.parametrize("reference", ["env:sk-not-a-name", "env:A B", "file:", "secret://a b"])
def test_a_malformed_reference_is_another_error_than_a_missing_secret(reference: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        resolve_secret(reference, {})
    is_missing = isinstance(refused.value, SecretUnreadableError)
    assert is_missing is (reference == "env:sk-not-a-name")
    assert "sk-not-a-name" not in refused.value.message


def test_a_secret_that_cannot_be_read_is_explained_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET", "hunter2")
    monkeypatch.setenv("EMPTY", "")
    file, undecodable = tmp_path / "key", tmp_path / "latin"
    file.write_text("hunter2")
    undecodable.write_bytes(b"\xff")
    for readable in ("env:SET", f"file:{file}", "written-out", f"file:{undecodable}"):
        assert unreadable_secret(readable) is None
    for reference, words in (
        ("env:EMPTY", "EMPTY"),
        ("env:UNSET_VARIABLE", "UNSET_VARIABLE"),
        (f"file:{tmp_path / 'none'}", "there is no such file"),
        (f"file:{tmp_path}", "there is no such file"),
        ("file:a\0b", "there is no such file"),
    ):
        assert words in (unreadable_secret(reference) or "")
    with pytest.raises(SecretUnreadableError, match="cannot be read"):
        resolve_secret(f"file:{undecodable}")
