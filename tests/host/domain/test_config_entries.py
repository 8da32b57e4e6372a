"""Entries of the configuration: which operations they allow, what these do, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.config_changes import compare, sparse
from hostler.domain.name_patterns import best_match, matches
from hostler.domain.openapi_entry import OpenApiEntry, check_openapi_entry
from hostler.domain.retention import Retention, WorkspaceRetention, check_retention
from hostler.domain.tool_entries import (
    CHANGING_FILES,
    READING_FILES,
    ExecEntry,
    FetchEntry,
    FilesEntry,
    ToolEntry,
    entries_by_key,
    tool_names,
)
from hostler.domain.webhooks import Webhook, webhook_mistake
from hostler_protocol.errors import InvalidArgumentError

NAMES = ("getPet", "GET /pets/{id}")


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("*", "", True),
        ("a*", "a", True),
        ("*.b", "a.b", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("ab*ba", "aba", False),
        ("[a]", "a", False),
    ],
)
def test_the_star_is_the_only_wildcard(pattern: str, name: str, fits: bool) -> None:
    assert matches(pattern, name) is fits


def test_the_most_specific_pattern_counts() -> None:
    assert best_match(["*", "shop.*", "shop.book"], "shop.book") == "shop.book"
    assert best_match(["*", "shop.*"], "shop.book") == "shop.*"
    assert best_match(["other"], "shop.book") is None


@pytest.mark.parametrize(
    ("allow", "deny", "allowed"),
    [
        (None, [], True),
        (["getPet"], [], True),
        (["GET /pets/*"], [], True),
        (["POST *"], [], False),
        (None, ["get*"], False),
        (["getPet"], ["GET *"], False),
    ],
)
def test_operations_are_allowed_by_name_or_path(
    allow: list[str] | None, deny: list[str], allowed: bool
) -> None:
    assert OpenApiEntry(name="x", document="d", allow=allow, deny=deny).allows(NAMES) is allowed


@pytest.mark.parametrize(
    ("effects", "method", "has_key", "effect"),
    [
        ({}, "get", False, "pure"),
        ({}, "put", False, "idempotent"),
        ({}, "post", False, "default"),
        ({}, "post", True, "idempotent"),
        ({"GET *": "default"}, "get", False, "default"),
        ({"GET *": "default", "getPet": "idempotent"}, "get", False, "idempotent"),
    ],
)
def test_the_effect_is_the_operators_or_the_methods(
    effects: Any, method: str, has_key: bool, effect: str
) -> None:
    entry = OpenApiEntry(name="x", document="d", effects=effects)
    assert entry.effect_of(NAMES, method, has_key=has_key) == effect


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"document": ""}, "document is empty"),
        ({"digest": "sha256:1"}, "64 hexadecimal"),
        ({"document": "http://"}, "no address"),
        ({"base_url": "https://x/y?z"}, "no address"),
        ({"base_url": "https://u:p@x"}, "user or a password"),
        ({"auth": {"key": "sk-1"}}, "no reference"),
        ({"allow": [""]}, "no pattern"),
    ],
)
def test_an_entry_that_cannot_work_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        check_openapi_entry(OpenApiEntry(**{"name": "x", "document": "d.json", **fields}))


def test_an_entry_names_one_tool_of_its_own_name() -> None:
    exec_, files, fetch = (
        ToolEntry(exec=ExecEntry()),
        ToolEntry(files=FilesEntry()),
        ToolEntry(fetch=FetchEntry()),
    )
    assert list(entries_by_key([exec_, files, fetch])) == ["exec:exec", "files:files", "fetch:fetch"]
    assert tool_names(files) == [f"files.{name}" for name in (*READING_FILES, *CHANGING_FILES)]
    reading = ToolEntry(files=FilesEntry(read_only=True))
    assert tool_names(reading) == [f"files.{name}" for name in READING_FILES]
    for wrong, words in (
        ([ToolEntry()], "names nothing"),
        ([ToolEntry(exec=ExecEntry(), fetch=FetchEntry())], "exec and fetch"),
        ([ToolEntry(exec=ExecEntry(name="1"))], "is no name"),
        ([exec_, exec_], "appears twice"),
        ([exec_] * 201, "at most 200"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            entries_by_key(wrong)


def test_a_comparison_names_what_changes() -> None:
    old, new = (
        {"a": ExecEntry(), "b": ExecEntry(), "c": ExecEntry()},
        {"a": ExecEntry(), "b": ExecEntry(seconds=1), "d": ExecEntry()},
    )
    for prune, gone in ((True, "removed"), (False, "kept")):
        changes = {
            change.name: change.change
            for change in compare("tool", old, new, prune=prune, shown=lambda one: one)
        }
        assert changes == {"a": "unchanged", "b": "changed", "d": "added", "c": gone}
    assert sparse(ExecEntry(seconds=1, environment={"A": "b"})) == {"seconds": 1, "environment": {"A": "b"}}


def test_retention_of_a_workspace_overrides_the_general_one() -> None:
    own = WorkspaceRetention(events=1, journals="forever")
    policy = Retention(events=30, journals=30, deltas=7, workspaces={"w": own})
    assert (policy.of("w").events, policy.of("w").journals, policy.of("w").deltas) == (1, None, 7)
    assert (policy.of("other").events, policy.of("other").journals) == (30, 30)
    check_retention(policy)
    for bad in (Retention(events=-1), Retention(deltas=40_000), Retention(workspaces={"": own})):
        with pytest.raises(InvalidArgumentError):
            check_retention(bad)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({}, None),
        ({"url": "env:URL"}, None),
        ({"name": "-"}, "name"),
        ({"secret": "written out"}, "secret"),
        ({"secret": "env:"}, "secret"),
        ({"url": "file:"}, "url"),
        ({"url": "ftp://x/private-path"}, "url"),
        ({"url": "https://u@x/private-path"}, "url"),
        ({"url": "https://x:0"}, "url"),
        ({"url": "https://x/private-path y"}, "url"),
    ],
)
def test_a_webhook_is_checked_without_showing_its_address(fields: dict[str, Any], place: str | None) -> None:
    stated = {"name": "ops", "url": "https://hooks.example/private-path", "secret": "env:S", **fields}
    mistake = webhook_mistake(Webhook(**stated))
    assert (mistake and mistake.place) == place
    assert mistake is None or "private-path" not in mistake.text
