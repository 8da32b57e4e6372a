"""What an agent's author is told of names: what a workspace may not use is as if it were not there."""

from __future__ import annotations

import pytest

from hostler.domain.allowances import Allowances, WorkspaceEntry
from hostler.domain.config_mistakes import Mistake
from hostler.domain.inventory import Inventory, PluginFacts

pytestmark = pytest.mark.gate("allowances")

ENTRY = WorkspaceEntry(
    name="tenant",
    plugins=["acme/*"],
    runners=["plugin:acme/shop/clerk"],
    models=["small"],
    tools=["shop.*"],
    skills=["pdf", "broken-of-theirs"],
    knowledge_bases=["theirs"],
)
INVENTORY = Inventory(
    workspace_id="tenant",
    plugins={
        "acme/shop": PluginFacts({}),
        "secret/plan": PluginFacts({}),
        "acme/down": PluginFacts(None, "down"),
    },
    models={"small": "llm", "big": "llm", "big-judge": "rerank"},
    unusable_models={"big": "its key is not there"},
    tools={"shop.book": "plugin:acme/shop#book", "shop.buy": "plugin:secret/plan#buy", "exec": "exec:exec"},
    skills=["pdf", "plans"],
    unusable_skills={"broken-of-theirs": "no description", "broken": "no description"},
    knowledge_bases=["theirs", "ours"],
    allowances=Allowances("home", [ENTRY]),
)


def told(kind: str, name: str, inventory: Inventory = INVENTORY) -> str:
    """What is said of a name, with `<it>` in its place; empty if nothing is."""
    found = {
        "runner": lambda: inventory.runner(name)[1],
        "model": lambda: inventory.model(name),
        "rerank model": lambda: inventory.model(name, "rerank"),
        "tool": lambda: inventory.tool(name),
        "skill": lambda: inventory.skill(name),
        "knowledge base": lambda: inventory.knowledge_base(name),
    }[kind]()
    assert found is None or isinstance(found, Mistake)
    return "" if found is None else found.text.replace(repr(name), "<it>")


@pytest.mark.parametrize(
    ("kind", "hidden", "absent"),
    [
        ("runner", "plugin:secret/plan/default", "plugin:nobody/knows/default"),
        ("runner", "plugin:acme/down/default", "plugin:acme/none/default"),
        ("model", "big", "none"),
        ("rerank model", "big-judge", "none"),
        ("tool", "exec", "none"),
        ("tool", "ex*", "no*"),
        ("tool", "shop.buy", "shop.none"),
        ("skill", "plans", "none"),
        ("skill", "broken", "none"),
        ("knowledge base", "ours", "none"),
    ],
)
def test_what_is_hidden_and_what_is_not_there_are_told_alike(kind: str, hidden: str, absent: str) -> None:
    answer = told(kind, hidden)
    assert answer == told(kind, absent)
    assert "workspace 'tenant' may not use" in answer
    unbounded = Inventory(workspace_id="tenant", plugins=INVENTORY.plugins, models=INVENTORY.models)
    assert "may not use" not in told(kind, absent, unbounded), "where nothing is hidden, it is not there"


@pytest.mark.parametrize(
    ("kind", "typo", "meant"),
    [
        ("model", "smal", "small"),
        ("tool", "shop.bok", "shop.book"),
        ("skill", "pdff", "pdf"),
        ("knowledge base", "theirss", "theirs"),
        ("model", "bigg", None),
        ("tool", "exek", None),
        ("skill", "planss", None),
        ("knowledge base", "ourss", None),
        ("runner", "plugin:secret/plam/default", None),
    ],
)
def test_only_what_may_be_used_is_suggested(kind: str, typo: str, meant: str | None) -> None:
    answer = told(kind, typo)
    assert (f"did you mean {meant!r}" in answer) if meant else ("did you mean" not in answer)


def test_what_may_be_used_and_cannot_now_says_why() -> None:
    assert "no description" in told("skill", "broken-of-theirs")
    assert told("model", "small") == told("tool", "shop.book") == told("knowledge base", "theirs") == ""
