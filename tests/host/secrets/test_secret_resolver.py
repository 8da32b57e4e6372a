"""Secrets behind references: read as late as possible, and never part of a message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostler.secrets.resolver import (
    MAX_SECRET_FILE_BYTES,
    OUT_OF_REACH,
    SecretUnreadableError,
    resolve_secret,
    unreadable_secret,
)
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


@pytest.mark.gate("references")
def test_links_lead_out_of_no_pattern(tmp_path: Path) -> None:
    """A workspace's list names folders, in which others may be able to make links."""
    real, theirs = tmp_path / "real", tmp_path / "theirs"
    (real / "..2024").mkdir(parents=True)
    theirs.symlink_to(real)  # a link that the operator wrote into the pattern
    (tmp_path / "ours").write_text("canary")
    (real / "..2024" / "key").write_text("key 2024 of another")
    (real / "key").symlink_to("..2024/key")  # as volumes of a cluster have them
    (real / "out").symlink_to(tmp_path / "ours")
    (real / "gone-out").symlink_to(tmp_path / "nothing-there")
    (real / "up").symlink_to(tmp_path)
    os.mkfifo(real / "pipe")
    (real / "large").write_bytes(bytes(MAX_SECRET_FILE_BYTES + 1))
    within = [f"{theirs}/*"]
    for inside in ("key", "..2024/key"):
        assert resolve_secret(f"file:{theirs}/{inside}", within=within) == "key 2024 of another"
    for outside in ("out", "up/ours", "pipe", "large", ".", "none"):
        with pytest.raises(SecretUnreadableError) as refused:
            resolve_secret(f"file:{theirs}/{outside}", within=within)
        assert "canary" not in refused.value.message
    told = {unreadable_secret(f"file:{theirs}/{name}", within=within) or "" for name in ("out", "gone-out")}
    assert {text.partition(": ")[2] for text in told} == {OUT_OF_REACH}, "nothing of what a link leads to"
    assert unreadable_secret(f"file:{theirs}/key", within=within) is None
    assert resolve_secret(f"file:{tmp_path}/ours") == "canary", "no list: the operator wrote it"
    assert resolve_secret(f"file:{theirs}/out", within=[f"{theirs}/out"]) == "canary", "named itself"
    assert resolve_secret(f"file:{theirs}/out", within=["*"]) == "canary"
    for patterns in ([], [f"{theirs}*"], ["theirs/*"]):
        with pytest.raises(SecretUnreadableError):
            resolve_secret(f"file:{theirs}/out", within=patterns)
