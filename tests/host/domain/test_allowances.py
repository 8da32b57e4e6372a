"""What agents of a workspace may use: by default, by an entry of its own, by that of every other."""

from __future__ import annotations

import msgspec
import pytest

from hostler.domain.allowances import (
    LISTS,
    MAX_ALLOWED,
    Allowances,
    WorkspaceEntry,
    closed_entry,
    workspace_mistakes,
)

pytestmark = pytest.mark.gate("allowances")

EXEC, MCP, BOOK = (
    ("exec", "exec:exec"),
    ("web.search", "mcp:web#search"),
    ("shop.book", "plugin:acme/shop#book"),
)
PDF = ("skill.pdf", "skill:pdf")
SECRETS = ("env:TENANT_KEY", "env:HOME", "file:/srv/tenant/key", "file:/etc/passwd")


def test_the_own_workspace_may_use_everything_and_others_no_tools_of_the_operator() -> None:
    own, other = Allowances("home").of("home"), Allowances("home").of("tenant")
    for may in (own, other):
        assert may.runner("plugin:acme/shop/clerk")
        assert may.model("gpt")
        assert may.skill("pdf")
        assert may.knowledge_base("handbook")
        assert may.tool(*BOOK)
        assert may.tool(*PDF)
        assert all(may.secret(one) for one in SECRETS)
        assert not may.lists_secrets
    for tool in (EXEC, MCP, ("api.get", "openapi:api#get"), ("fetch", "fetch:fetch"), ("x", "new-kind:x")):
        assert own.tool(*tool)
        assert not other.tool(*tool)


def test_a_plugin_that_gives_all_agents_one_shell_is_the_own_workspaces_unless_it_is_listed() -> None:
    runner = "plugin:hostler/acp/default"
    allowances = Allowances("home", [WorkspaceEntry(name="listed", plugins=["hostler/acp"])])
    assert allowances.of("home").runner(runner)
    assert allowances.of("listed").runner(runner)
    other = allowances.of("tenant")
    assert not other.runner(runner)
    assert not other.plugin("hostler/acp")
    assert other.runner("plugin:hostler/dify/default")
    assert "the operator can allow it with 'plugins' of its entry" in other.refused("runner", runner)


def test_a_list_is_all_that_may_be_used() -> None:
    entry = WorkspaceEntry(
        name="tenant",
        plugins=["acme/*"],
        runners=["plugin:acme/shop/*"],
        models=["small", "tiny-*"],
        tools=["exec", "shop.*"],
        skills=["pdf"],
        knowledge_bases=["theirs"],
    )
    may = Allowances("home", [entry]).of("tenant")
    assert [
        may.runner(f"plugin:{one}") for one in ("acme/shop/clerk", "acme/bank/clerk", "evil/shop/clerk")
    ] == [
        True,
        False,
        False,
    ]
    assert [may.model(one) for one in ("small", "tiny-1", "big")] == [True, True, False]
    assert may.tool(*EXEC)
    assert not may.tool(*MCP)
    assert may.tool(*BOOK)
    assert not may.tool("shop.book", "plugin:evil/shop#book"), "its plugin is not listed"
    assert may.tool(*PDF), "the tool of a skill comes with the skill"
    assert not may.tool("skill.other", "skill:other")
    assert (may.knowledge_base("theirs"), may.knowledge_base("ours")) == (True, False)


def test_an_entry_may_bound_the_own_workspace_and_one_for_every_other_does_not() -> None:
    every = WorkspaceEntry(name="*", models=[])
    mine = WorkspaceEntry(name="tenant", models=["small"])
    allowances = Allowances("home", [every, mine])
    assert allowances.of("home").model("big")
    assert allowances.of("home").tool(*EXEC)
    assert not allowances.of("stranger").model("small")
    assert allowances.of("tenant").model("small")
    bounded = Allowances("home", [WorkspaceEntry(name="home", tools=["shop.*"])]).of("home")
    assert not bounded.tool(*EXEC)
    assert bounded.tool(*BOOK)


@pytest.mark.parametrize(
    ("prefix", "source", "allowed"),
    [
        ("shop.", "plugin:acme/shop#", True),
        ("shop.", "plugin:evil/shop#", False),
        ("crm.", "mcp:crm", True),
        ("web.", "mcp:web", False),
    ],
)
def test_of_a_source_whose_tools_are_not_known(prefix: str, source: str, allowed: bool) -> None:
    entry = WorkspaceEntry(name="tenant", plugins=["acme/*"], tools=["shop.book", "cr*"])
    assert Allowances("home", [entry]).of("tenant").tools_of(prefix, source) is allowed
    assert Allowances("home").of("home").tools_of(prefix, source)
    assert Allowances("home").of("tenant").tools_of(prefix, source) is source.startswith("plugin:")


def test_where_nothing_is_withheld() -> None:
    kinds = ("runner", "model", "tool", "skill", "knowledge base")
    assert not any(Allowances("home").of("home").withholds(kind) for kind in kinds)
    assert [kind for kind in kinds if Allowances("home").of("tenant").withholds(kind)] == ["tool"]
    listed = Allowances("home", [WorkspaceEntry(name="home", plugins=[])]).of("home")
    assert [kind for kind in kinds if listed.withholds(kind)] == ["runner", "tool"]


@pytest.mark.parametrize(
    "reference",
    [
        "env:HOME",
        "env:TENANT",
        "file:/srv/tenant",
        "file:/srv/tenant/../../etc/passwd",
        "file:/srv/tenant/./key",
        "file:/srv/tenant//key",
        "file://srv/tenant/key",
        "file:srv/tenant/key",
        "file:~/key",
        "file:",
        "secret://srv",
    ],
)
def test_a_secret_beside_the_list_is_none(reference: str) -> None:
    entry = WorkspaceEntry(name="tenant", secrets=["env:TENANT_*", "file:/srv/tenant/*"])
    may = Allowances("home", [entry]).of("tenant")
    assert may.secret("env:TENANT_KEY")
    assert may.secret("file:/srv/tenant/deep/key")
    assert not may.secret(reference)


def test_a_closed_entry_allows_nothing() -> None:
    may = Allowances("home", [closed_entry("tenant")]).of("tenant")
    assert not may.runner("plugin:acme/shop/clerk")
    assert not may.model("gpt")
    assert not may.skill("pdf")
    assert not may.knowledge_base("handbook")
    assert not any(may.tool(*tool) for tool in (EXEC, MCP, BOOK, PDF, ("read", "files:files#read")))
    assert not any(may.secret(one) for one in SECRETS)


def test_the_refusal_names_the_workspace_the_thing_and_the_field() -> None:
    may = Allowances("home").of("tenant")
    assert may.refused("knowledge base", "ours") == (
        "workspace 'tenant' may not use knowledge base 'ours': the operator can allow it with "
        "'knowledge_bases' of its entry in `workspaces`"
    )
    fields = {f"{kind.replace(' ', '_')}s" for kind in ("runner", "model", "tool", "skill", "secret")}
    assert fields < set(LISTS)


def test_the_revision_counts_changes() -> None:
    allowances = Allowances("home")
    first = allowances.revision
    allowances.replace([WorkspaceEntry(name="tenant", models=[])])
    changed = allowances.revision
    allowances.replace([WorkspaceEntry(name="tenant", models=[])])
    assert first < changed == allowances.revision


def test_mistakes_of_an_entry_are_named() -> None:
    entry = WorkspaceEntry(
        name="t", models=["", *["m"] * MAX_ALLOWED], secrets=["env:A", "*", "A_KEY", "file:/a/*"]
    )
    assert [(one.place, one.text) for one in workspace_mistakes(entry)] == [
        ("models", "has 1,001 names; at most 1,000 are allowed"),
        ("models[0]", "is empty"),
        ("secrets[2]", "expected a reference: env:NAME or file:PATH, perhaps with *"),
    ]
    assert workspace_mistakes(msgspec.convert({"name": "t"}, WorkspaceEntry)) == []
