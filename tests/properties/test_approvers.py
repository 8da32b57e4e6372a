"""Who may decide: only qualified votes count, also when they are counted later (invariant 17)."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.approvers import (
    DEFAULT_RULE,
    ApproverRule,
    ToolApprovalPolicy,
    Vote,
    check_subject,
    may_see,
    qualifies,
    refusal,
    rule_of,
    stricter,
    tally,
)
from hostler.domain.events import Caller

pytestmark = pytest.mark.gate("approvals")

EXAMPLES = 3_000 if os.environ.get("HOSTLER_SOAK") else 200
PEOPLE = ["ann", "bob", "cem", "requester", "role:admin", "*"]
"""Some have names that look like subjects: they must not be taken for one."""
ROLES = ["admin", "finance", "requester", "*"]
SUBJECTS = ["requester", "*", *(f"user:{p}" for p in PEOPLE), *(f"role:{r}" for r in ROLES)]

rules = st.builds(
    ApproverRule,
    subjects=st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=4).map(tuple),
    min_approvals=st.integers(1, 3),
    separation_of_duty=st.booleans(),
)
callers = st.builds(
    Caller,
    workspace_id=st.just("w"),
    subject=st.sampled_from(PEOPLE),
    key_id=st.sampled_from([f"k{n}" for n in range(8)]),
    roles=st.frozensets(st.sampled_from(ROLES), max_size=3),
    rights=st.sampled_from([frozenset({"pauses:write"}), frozenset({"admin"}), frozenset({"runs:read"})]),
)
requesters = st.none() | st.sampled_from(PEOPLE)


def caller(subject: str, *roles: str, key: str | None = None, right: str = "pauses:write") -> Caller:
    return Caller("w", subject, key or f"key-{subject}", frozenset(roles), frozenset({right}))


@settings(max_examples=EXAMPLES, deadline=None)
@given(rules, callers, requesters)
def test_somebody_qualifies_exactly_when_the_words_of_the_rule_say_so(
    rule: ApproverRule, who: Caller, requester: str | None
) -> None:
    named = (
        "*" in rule.subjects
        or ("requester" in rule.subjects and requester == who.subject)
        or f"user:{who.subject}" in rule.subjects
        or any(f"role:{role}" in rule.subjects for role in who.roles)
    )
    barred = rule.separation_of_duty and requester == who.subject
    able = "runs:read" not in who.rights
    assert qualifies(rule, who, requester) == (named and not barred and able)
    assert (refusal(rule, who, requester) is None) == qualifies(rule, who, requester)
    if qualifies(rule, who, requester):
        assert may_see([rule], who, requester)


@settings(max_examples=EXAMPLES, deadline=None)
@given(rules, st.lists(callers, max_size=8, unique_by=lambda c: c.key_id), requesters, st.data())
def test_invariant_17_only_votes_whose_voters_qualify_now_are_counted(
    rule: ApproverRule, voters: list[Caller], requester: str | None, data: st.DataObject
) -> None:
    votes = [
        Vote(v.key_id, v.subject, data.draw(st.sampled_from(["approve", "deny"])), "digest") for v in voters
    ]
    gone = data.draw(st.sets(st.sampled_from([v.key_id for v in voters]))) if voters else set()
    stripped = data.draw(st.sets(st.sampled_from([v.key_id for v in voters]))) if voters else set()
    present = {
        v.key_id: replace(v, roles=frozenset()) if v.key_id in stripped else v
        for v in voters
        if v.key_id not in gone
    }
    counted = tally(rule, requester, votes, present, args_hash="digest")
    good = [v for v in votes if v.key_id in present and qualifies(rule, present[v.key_id], requester)]
    assert set(counted.approvals) == {v.subject for v in good if v.kind == "approve"}
    assert (counted.denied_by is None) == all(v.kind == "approve" for v in good)
    if counted.outcome == "approved":
        assert len(set(counted.approvals)) >= rule.min_approvals
        assert not (rule.separation_of_duty and requester in counted.approvals)
    assert (counted.missing == 0) == (len(set(counted.approvals)) >= rule.min_approvals)


@settings(max_examples=EXAMPLES, deadline=None)
@given(rules, rules, callers, requesters)
def test_of_two_rules_the_stricter_asks_for_at_least_as_many_and_keeps_the_requester_out(
    first: ApproverRule, second: ApproverRule, who: Caller, requester: str | None
) -> None:
    both = stricter(first, second)
    assert both.min_approvals >= max(first.min_approvals, second.min_approvals)
    assert both.separation_of_duty == (first.separation_of_duty or second.separation_of_duty)
    if qualifies(both, who, requester):
        assert qualifies(first, who, requester) or qualifies(second, who, requester)


def test_one_person_with_two_keys_is_one_approval() -> None:
    rule = ApproverRule(subjects=("role:finance",), min_approvals=2)
    ann, same = caller("ann", "finance", key="k1"), caller("ann", "finance", key="k2")
    bob = caller("bob", "finance")
    votes = [Vote("k1", "ann", "approve"), Vote("k2", "ann", "approve")]
    assert tally(rule, None, votes, {"k1": ann, "k2": same}).outcome is None
    votes.append(Vote(bob.key_id, "bob", "approve"))
    assert tally(rule, None, votes, {"k1": ann, "k2": same, bob.key_id: bob}).outcome == "approved"


def test_a_key_that_was_given_to_somebody_else_does_not_carry_the_vote_over() -> None:
    votes = [Vote("k1", "ann", "approve")]
    assert tally(DEFAULT_RULE, "bob", votes, {"k1": caller("bob", key="k1")}).approvals == ()


def test_votes_on_other_arguments_or_another_revision_do_not_count() -> None:
    ann = caller("ann", "admin")
    votes = [Vote(ann.key_id, "ann", "approve", "old", 1)]
    present = {ann.key_id: ann}
    assert tally(DEFAULT_RULE, None, votes, present, args_hash="old", revision=1).outcome == "approved"
    assert tally(DEFAULT_RULE, None, votes, present, args_hash="new", revision=1).outcome is None
    assert tally(DEFAULT_RULE, None, votes, present, args_hash="old", revision=2).outcome is None


def test_a_denial_decides_whatever_was_approved() -> None:
    rule = ApproverRule(subjects=("*",), min_approvals=2)
    present = {c.key_id: c for c in (caller("ann"), caller("bob"))}
    votes = [Vote("key-ann", "ann", "approve"), Vote("key-bob", "bob", "deny")]
    assert tally(rule, None, votes, present).outcome == "denied"


def test_the_requester_sees_what_it_may_not_decide_and_strangers_see_nothing() -> None:
    rule = ApproverRule(subjects=("requester", "role:finance"), separation_of_duty=True)
    ann, bob, cem = caller("ann"), caller("bob", "finance"), caller("cem")
    assert may_see([rule], ann, "ann")
    assert refusal(rule, ann, "ann") == "the requester may not decide this: another person has to"
    assert may_see([rule], bob, "ann")
    assert qualifies(rule, bob, "ann")
    assert not may_see([rule], cem, "ann")
    assert refusal(rule, cem, "ann") == "this is for the requester or the role 'finance' to decide"
    assert may_see([rule], caller("root", right="admin"), "ann")


def test_without_a_requester_nobody_is_it() -> None:
    assert not qualifies(ApproverRule(subjects=("requester",)), caller("ann"), None)


@pytest.mark.parametrize("subject", ["member:ada", "member:Ada@example.com", "member:a@b@c.de"])
def test_a_member_is_named_by_a_whole_address(subject: str) -> None:
    with pytest.raises(ValueError, match="names no member"):
        check_subject(subject)
    check_subject("member:ada@example.com")
    check_subject("group:any name at all")


def test_a_policy_becomes_a_rule() -> None:
    policy = ToolApprovalPolicy(subjects=["role:x", "role:x"], min_approvals=2, separation_of_duty=True)
    assert rule_of(policy) == ApproverRule(subjects=("role:x",), min_approvals=2, separation_of_duty=True)
    assert rule_of(None) == rule_of(ToolApprovalPolicy()) == DEFAULT_RULE


@pytest.mark.parametrize(
    "subject", ["", "role:", "user: ann", "group:", "team:x", "admin", "Requester", "role:\x00"]
)
def test_what_is_no_subject_is_refused(subject: str) -> None:
    with pytest.raises(ValueError, match="is no subject"):
        check_subject(subject)
    with pytest.raises(ValueError, match="is no subject"):
        ApproverRule(subjects=(subject,))


@pytest.mark.parametrize("given_rule", [{"subjects": ()}, {"min_approvals": 0}, {"min_approvals": 21}])
def test_a_rule_that_nobody_could_satisfy_is_refused(given_rule: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"expected|possible"):
        ApproverRule(**given_rule)  # type: ignore[arg-type]
