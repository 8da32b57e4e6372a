"""What is granted of each kind of resource, for every way in which form, configuration and policy can stand.

The table of docs/agents.md, row by row: `effective = permissions ∩ policy ∩ configuration ∩ scope`.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import pytest

from hostler.domain.granted_resources import ResourceCatalog
from hostler.domain.grants import Grant
from hostler.domain.skills import SKILL_TOOLS
from hostler_protocol.grants import KnowledgeBaseResource, ModelResource, SkillResource, ToolResource
from hostler_protocol.manifest import FormItem, Permissions
from support.grants import ResourcePolicy, agent_of, grant_of, manifest_of

pytestmark = pytest.mark.gate("grants")

Kind = Literal["models", "rerank_models", "knowledge_bases", "tools"]
UNCHOSEN = "unchosen"
NO_SELECTOR = "no selector"

SELECTORS: dict[Kind, list[FormItem]] = {
    "models": [
        FormItem(name="chosen", type="llm-model-selector"),
        FormItem(name="chosen", type="model-fallback-selector"),
        FormItem(name="chosen", type="select-llm-model"),
    ],
    "rerank_models": [FormItem(name="chosen", type="rerank-model-selector")],
    "knowledge_bases": [
        FormItem(name="chosen", type="knowledge-base-multi-selector"),
        FormItem(name="chosen", type="select-knowledge-bases"),
    ],
    "tools": [FormItem(name="chosen", type="tool-multi-selector")],
}
NAMES: dict[Kind, tuple[str, str]] = {
    "models": ("large", "small"),
    "rerank_models": ("judge", "jury"),
    "knowledge_bases": ("rules", "prices"),
    "tools": ("shop.book", "shop.prices"),
}
CATALOG = ResourceCatalog(
    models={name: ModelResource(model_id=name, operations=["invoke", "stream"]) for name in NAMES["models"]}
    | {
        name: ModelResource(model_id=name, model_type="rerank", operations=["rerank"])
        for name in NAMES["rerank_models"]
    },
    tools={
        name: ToolResource(tool_name=name, operations=["detail", "call"])
        for name in (*NAMES["tools"], "search")
    }
    | {"skill.brew": ToolResource(tool_name="skill.brew", tool_type=SKILL_TOOLS, operations=["call"])},
    knowledge_bases={
        name: KnowledgeBaseResource(kb_id=name, operations=["retrieve"]) for name in NAMES["knowledge_bases"]
    },
    skills={"brew": SkillResource(skill_name="brew")},
)
POLICY_KEYS: dict[Kind, str] = {
    "models": "allowed_model_ids",
    "rerank_models": "allowed_model_ids",
    "knowledge_bases": "allowed_kb_ids",
    "tools": "allowed_tool_names",
}


def policy_of(**lists: list[str] | None) -> ResourcePolicy:
    return msgspec.convert(lists, ResourcePolicy)


class Row(NamedTuple):
    """`chosen` and `allowed` name the first and the second of a kind by 1 and 2; `granted` likewise."""

    chosen: str | list[int]
    allowed: list[int] | None
    granted: list[int]


def _granted(chosen: str | list[int], allowed: list[int] | None) -> list[int]:
    """The rule: a choice bounds, a policy bounds; where there is no choice the policy gives."""
    if isinstance(chosen, str):
        return allowed or []
    return [one for one in chosen if allowed is None or one in allowed]


CHOICES: list[str | list[int]] = [NO_SELECTOR, UNCHOSEN, [], [1], [2], [1, 2]]
POLICIES: list[list[int] | None] = [None, [], [1], [2], [1, 2]]
TABLE = [Row(chosen, allowed, _granted(chosen, allowed)) for chosen in CHOICES for allowed in POLICIES]


def test_the_table_of_the_docs_is_the_table_that_holds() -> None:
    """Each cell of docs/agents.md, as a row of the table above; the test below says that it is so."""
    page = (Path(__file__).parents[3] / "docs" / "agents.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if "|" in line]
    start = next(n for n, row in enumerate(rows) if row[1:2] == ["policy: null"])
    numbers = {"null": None, "`[]`": [], "`[a]`": [1], "`[b]`": [2], "`[a, b]`": [1, 2]}
    granted = {"nothing": [], "a": [1], "b": [2], "a, b": [1, 2]}
    policies = [numbers[head.removeprefix("policy: ")] for head in rows[start][1:]]
    told: list[Row] = []
    for name, *cells in itertools.takewhile(lambda row: len(row) == len(rows[start]), rows[start + 2 :]):
        choices = [NO_SELECTOR, UNCHOSEN] if name not in numbers else [numbers[name]]
        told += [
            Row(choice, allowed, granted[cell])  # type: ignore[arg-type]
            for choice in choices
            for allowed, cell in zip(policies, cells, strict=True)
        ]
    assert len(told) == 6 * 4
    by_row = {str(row[:2]): row.granted for row in TABLE}
    assert {str(row[:2]): row.granted for row in told}.items() <= by_row.items()


def granted_of(grant: Grant, kind: Kind) -> set[str]:
    match kind:
        case "models" | "rerank_models":
            wanted = "rerank" if kind == "rerank_models" else "llm"
            return {name for name, model in grant.models.items() if model.model_type == wanted}
        case "knowledge_bases":
            return set(grant.knowledge_bases)
        case "tools":
            return set(grant.tools) - {"skill.brew"}


def unchosen(item: FormItem) -> list[Any]:
    """Every form in which an item of this type can say that nothing was chosen."""
    match item.kind:
        case "tool-multi-selector":
            return [None]
        case "model-fallback-selector":
            nobody = [{"primary": None, "fallbacks": []}, {"primary": "__none__"}, {}]
            return [None, "", "__none__", "__none", *nobody]
        case _:
            return [None, "", "__none__", "__none"]


def values_of(item: FormItem, chosen: list[str]) -> list[Any]:
    """Every form in which an item of this type can say what it chooses; none where it cannot."""
    many = item.kind in ("knowledge-base-multi-selector", "tool-multi-selector")
    if not chosen:
        return [[], [""], ["__none__"]] if many else []
    if item.kind == "model-fallback-selector":
        return [{"primary": chosen[0], "fallbacks": chosen[1:]}]
    if item.kind in ("llm-model-selector", "rerank-model-selector"):
        return [chosen[0]] if len(chosen) == 1 else []
    return [chosen]


CASES = [(kind, item, row) for kind, items in SELECTORS.items() for item in items for row in TABLE]


@pytest.mark.parametrize(
    ("kind", "item", "row"), CASES, ids=[f"{i.type} {r.chosen} {r.allowed}" for _, i, r in CASES]
)
def test_each_row_of_the_table_for_each_kind_of_selector(kind: Kind, item: FormItem, row: Row) -> None:
    names = NAMES[kind]
    allowed = None if row.allowed is None else [names[n - 1] for n in row.allowed]
    policy = policy_of(**{POLICY_KEYS[kind]: allowed})
    form = [] if row.chosen == NO_SELECTOR else [item]
    match row.chosen:
        case list():
            configs = [{"chosen": value} for value in values_of(item, [names[n - 1] for n in row.chosen])]
        case "unchosen":
            configs = [{}, *({"chosen": value} for value in unchosen(item))]
        case _:
            configs = [{}]
    for config in configs:
        grant = grant_of(
            manifest=manifest_of(form=form),
            agent=agent_of(resource_policy=policy),
            config=config,
            catalog=CATALOG,
        )
        assert granted_of(grant, kind) == {names[n - 1] for n in row.granted}, config


@pytest.mark.parametrize("kind", list(NAMES))
def test_a_selector_of_one_kind_bounds_no_other(kind: Kind) -> None:
    """With a selector for one kind, the policy alone rules the others, rerank models beside models too."""
    names = NAMES[kind]
    others = [other for other in NAMES if other != kind]
    policy = ResourcePolicy(
        allowed_model_ids=[*NAMES["models"], *NAMES["rerank_models"]],
        allowed_kb_ids=list(NAMES["knowledge_bases"]),
        allowed_tool_names=["shop.*"],
    )
    grant = grant_of(
        manifest=manifest_of(form=[SELECTORS[kind][0]]),
        agent=agent_of(resource_policy=policy),
        config={"chosen": values_of(SELECTORS[kind][0], [names[0]])[0]},
        catalog=CATALOG,
    )
    assert granted_of(grant, kind) == {names[0]}
    for other in others:
        assert granted_of(grant, other) == set(NAMES[other])


PATTERNS = [
    # chosen, allowed, granted
    (["shop.*"], None, {"shop.book", "shop.prices"}),
    (["*"], ["shop.*"], {"shop.book", "shop.prices"}),
    (["shop.*"], ["*"], {"shop.book", "shop.prices"}),
    (["shop.*"], ["*.book", "search"], {"shop.book"}),
    (["shop.prices"], ["shop.*"], {"shop.prices"}),
    (["shop.p*", "search"], ["s*"], {"shop.prices", "search"}),
    (["search"], ["shop.*"], set()),
    ([], ["*"], set()),
    (None, ["*"], {"shop.book", "shop.prices", "search"}),
    (None, ["shop.*", "gone"], {"shop.book", "shop.prices"}),
]


@pytest.mark.parametrize(("chosen", "allowed", "granted"), PATTERNS)
def test_patterns_of_tools_meet(
    chosen: list[str] | None, allowed: list[str] | None, granted: set[str]
) -> None:
    """A tool is granted where the choice and the policy both match it. `chosen` None: no selector."""
    grant = grant_of(
        manifest=manifest_of(form=[] if chosen is None else SELECTORS["tools"]),
        agent=agent_of(resource_policy=ResourcePolicy(allowed_tool_names=allowed)),
        config={} if chosen is None else {"chosen": chosen},
        catalog=CATALOG,
    )
    assert granted_of(grant, "tools") == granted


def test_several_selectors_of_one_kind_choose_together() -> None:
    form = [
        FormItem(name="main", type="model-fallback-selector"),
        FormItem(name="for-notes", type="llm-model-selector"),
    ]
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"main": "large"}, {"large"}),
        ({"for-notes": "small"}, {"small"}),
        ({"main": "large", "for-notes": "small"}, {"large", "small"}),
        ({}, {"large", "small"}),
    ]
    for config, granted in cases:
        grant = grant_of(
            manifest=manifest_of(form=form),
            agent=agent_of(resource_policy=ResourcePolicy(allowed_model_ids=["large", "small"])),
            config=config,
            catalog=CATALOG,
        )
        assert granted_of(grant, "models") == granted


def test_a_default_of_the_form_is_a_choice() -> None:
    form = [FormItem(name="tools", type="tool-multi-selector", default=["shop.prices"])]
    policy = ResourcePolicy(allowed_tool_names=["*"])
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"shop.prices"}),
        ({"tools": ["search"]}, {"search"}),
        ({"tools": []}, set()),
    ]
    for config, granted in cases:
        grant = grant_of(
            manifest=manifest_of(form=form),
            agent=agent_of(resource_policy=policy),
            config=config,
            catalog=CATALOG,
        )
        assert granted_of(grant, "tools") == granted


SKILLS = [
    # selector of tools chooses, policy allows tools, policy allows skills, whether the skill is granted
    (None, None, None, True),
    (None, [], None, True),
    ([], [], None, True),
    (["search"], ["search"], ["brew"], True),
    (["skill.brew"], ["skill.brew"], [], False),
    (["*"], ["*"], ["other"], False),
]


@pytest.mark.parametrize(("chosen", "tools", "skills", "granted"), SKILLS)
def test_a_skill_comes_by_the_policy_of_skills_alone(
    chosen: list[str] | None, tools: list[str] | None, skills: list[str] | None, granted: bool
) -> None:
    policy = ResourcePolicy(allowed_tool_names=tools, allowed_skill_names=skills)
    grant = grant_of(
        manifest=manifest_of(form=[] if chosen is None else SELECTORS["tools"]),
        agent=agent_of(resource_policy=policy),
        config={} if chosen is None else {"chosen": chosen},
        catalog=CATALOG,
    )
    assert ("brew" in grant.skills, "skill.brew" in grant.tools) == (granted, granted)


@pytest.mark.parametrize(("chosen", "allowed"), list(itertools.product([True, False], [True, False])))
def test_nothing_is_granted_for_which_the_manifest_has_no_permission(chosen: bool, allowed: bool) -> None:
    every = [items[0] for items in SELECTORS.values()]
    form = [FormItem(name=f"item{n}", type=item.type) for n, item in enumerate(every)] if chosen else []
    config = {
        f"item{n}": values_of(item, [names[0]])[0]
        for n, (item, names) in enumerate(zip(every, NAMES.values(), strict=True))
    }
    lists = {
        key: [n for k, names in NAMES.items() if POLICY_KEYS[k] == key for n in names]
        for key in POLICY_KEYS.values()
    }
    policy = policy_of(**lists) if allowed else ResourcePolicy()
    grant = grant_of(
        manifest=manifest_of(Permissions(), form=form),
        agent=agent_of(resource_policy=policy),
        config=config if chosen else {},
        catalog=CATALOG,
    )
    assert not grant.models
    assert not grant.tools
    assert not grant.knowledge_bases


def test_what_was_not_granted_is_noted_once() -> None:
    form = [
        FormItem(name="model", type="model-fallback-selector"),
        FormItem(name="tools", type="tool-multi-selector"),
        FormItem(name="kbs", type="knowledge-base-multi-selector"),
    ]
    policy = ResourcePolicy(
        allowed_model_ids=["small", "judge", "nobody"],
        allowed_tool_names=["shop.*"],
        allowed_kb_ids=["rules"],
    )
    grant = grant_of(
        manifest=manifest_of(form=form),
        agent=agent_of(resource_policy=policy),
        config={
            "model": {"primary": "large", "fallbacks": ["gone", "small"]},
            "tools": ["search", "shop.*", "lost.*"],
            "kbs": [],
        },
        catalog=CATALOG,
    )
    assert list(grant.models) == ["small", "judge"]
    assert set(grant.tools) - {"skill.brew"} == {"shop.book", "shop.prices"}
    assert grant.notes == [
        "model 'large' is selected by the configuration, but the policy does not allow it",
        "model 'gone' is selected by the configuration, but the policy does not allow it",
        "model 'nobody' is not known to this host",
        "tool 'search' is selected by the configuration, but the policy does not allow it",
        "tool 'lost.*' is not known to this host",
        "no knowledge base is granted: the policy allows some, but the configuration selects none",
    ]


def test_embedding_models_are_granted_by_the_policy_alone() -> None:
    vectors = ModelResource(model_id="vectors", model_type="embedding", operations=["embed"])
    catalog = ResourceCatalog(models={**CATALOG.models, "vectors": vectors})
    form = [*SELECTORS["models"][:1], *SELECTORS["rerank_models"]]
    form = [msgspec.structs.replace(item, name=f"chosen{n}") for n, item in enumerate(form)]
    manifest = manifest_of(Permissions(models=["invoke", "embed"]), form=form)
    for config in ({"chosen0": "large"}, {"chosen0": "large", "chosen1": "judge"}):
        for allowed, granted in (
            (None, ["large"]),
            (["large"], ["large"]),
            (["large", "vectors"], ["large", "vectors"]),
        ):
            agent = agent_of(resource_policy=policy_of(allowed_model_ids=allowed))
            grant = grant_of(manifest=manifest, agent=agent, config=config, catalog=catalog)
            assert [name for name in grant.models if name != "judge"] == granted
