"""Who may decide: the rule that a pause freezes, and whether a vote still counts when it is acted on.

A subject of a rule is `requester` (the authenticated subject that sent the event), `role:NAME`, `user:NAME`
or `*` (any authenticated caller of the workspace). Identity comes from authentication alone: a `Caller` is
built from a key, never from what a request says about itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from hostler.domain.events import Caller
from hostler.domain.pauses import OnExpiry
from hostler_protocol._base import Strict
from hostler_protocol.pausing import expiry_misfit

REQUESTER = "requester"
ANYBODY = "*"
DEFAULT_SUBJECTS = ("requester", "role:admin")
MAX_SUBJECTS = 100
"""Subjects of one rule; it is stored with every call that it stands in front of."""
MAX_APPROVALS = 20
"""Approvals that one call may need: each is a person to be found in time."""

DECIDING_RIGHTS = frozenset({"pauses:write", "admin", "installation"})
"""A key without any of these decides nothing. Tokens of plugin processes and of runs hold none of them."""
BLIND_RIGHTS = frozenset({"pauses:decide_blind", "admin", "installation"})
"""Only a key with one of these may approve and deny without the digest of what was shown."""
ALL_SEEING_RIGHTS = frozenset({"admin", "installation"})

VoteKind = Literal["approve", "deny"]
ApprovalRule = Literal["never", "required"]


def check_subject(subject: str) -> None:
    """ValueError unless this is a subject of a rule."""
    if subject in (REQUESTER, ANYBODY):
        return
    kind, colon, name = subject.partition(":")
    if not colon or kind not in ("role", "user") or not name or name != name.strip() or "\x00" in name:
        raise ValueError(
            f"{subject!r} is no subject: expected requester, role:NAME, user:NAME, or * for any caller"
        )


class ToolApprovalPolicy(Strict):
    """Whether and by whom a tool call must be approved."""

    approval: ApprovalRule = "required"
    subjects: list[str] = msgspec.field(default_factory=lambda: ["requester", "role:admin"])
    min_approvals: int = 1
    separation_of_duty: bool = False
    expires_in: float = 1800.0
    editable: bool = False
    locked: list[str] = []
    on_expiry: OnExpiry = "resume"
    """What follows where nobody answers in time: the run goes on and hears `expired`, or is cancelled."""

    def __post_init__(self) -> None:
        if not self.subjects:
            raise ValueError("subjects is empty: nobody could approve; leave it out for the default")
        for subject in self.subjects:
            check_subject(subject)
        if not 1 <= self.min_approvals <= MAX_APPROVALS:
            raise ValueError(f"min_approvals is {self.min_approvals}; 1 to {MAX_APPROVALS} are possible")
        if (misfit := expiry_misfit(self.expires_in)) is not None:
            raise ValueError(misfit)


class ApproverRule(Strict):
    """Who may decide one call, frozen when its pause opens. `min_approvals` counts different subjects;
    with `separation_of_duty` the requester has no say.
    """

    subjects: tuple[str, ...] = DEFAULT_SUBJECTS
    min_approvals: int = 1
    separation_of_duty: bool = False

    def __post_init__(self) -> None:
        if not self.subjects or len(self.subjects) > MAX_SUBJECTS:
            raise ValueError(f"subjects: {len(self.subjects)} of them; 1 to {MAX_SUBJECTS} are expected")
        for subject in self.subjects:
            check_subject(subject)
        if not 1 <= self.min_approvals <= MAX_APPROVALS:
            raise ValueError(f"min_approvals is {self.min_approvals}; 1 to {MAX_APPROVALS} are possible")


DEFAULT_RULE = ApproverRule()
"""Of questions, client tools and approvals without a rule of their own."""


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote: by whom, with which key, on which arguments (their digest) of which revision."""

    key_id: str
    subject: str
    kind: VoteKind
    args_hash: str = ""
    revision: int = 1


@dataclass(frozen=True, slots=True)
class Tally:
    """How the votes of a call stand. `approvals`: subjects whose approval counts, in the order they voted."""

    approvals: tuple[str, ...]
    denied_by: str | None
    needed: int

    @property
    def outcome(self) -> Literal["approved", "denied"] | None:
        """The decision; None while approvals are missing. One denial decides."""
        if self.denied_by is not None:
            return "denied"
        return "approved" if len(self.approvals) >= self.needed else None

    @property
    def missing(self) -> int:
        """How many approvals are still needed."""
        return max(0, self.needed - len(self.approvals))


def rule_of(policy: ToolApprovalPolicy | None) -> ApproverRule:
    """The rule that a tool's policy names; the default one where it has none."""
    if policy is None:
        return DEFAULT_RULE
    return ApproverRule(
        subjects=tuple(dict.fromkeys(policy.subjects)),
        min_approvals=policy.min_approvals,
        separation_of_duty=policy.separation_of_duty,
    )


def named_by(rule: ApproverRule, caller: Caller, requester: str | None) -> bool:
    """Whether one of the rule's subjects is this caller, whatever else stands in the way."""
    for subject in rule.subjects:
        kind, _, name = subject.partition(":")
        if subject == ANYBODY:
            return True
        if subject == REQUESTER and requester is not None and caller.subject == requester:
            return True
        if kind == "user" and name == caller.subject:
            return True
        if kind == "role" and name in caller.roles:
            return True
    return False


def refusal(rule: ApproverRule, caller: Caller, requester: str | None) -> str | None:
    """Why this caller may not decide, as a sentence; None: it may."""
    if not caller.rights & DECIDING_RIGHTS:
        return "this key has no right 'pauses:write'"
    if rule.separation_of_duty and requester is not None and caller.subject == requester:
        return "whoever asked for this may not decide it: somebody else has to"
    if not named_by(rule, caller, requester):
        return f"this is for {' or '.join(map(_in_words, rule.subjects))} to decide"
    return None


def qualifies(rule: ApproverRule, caller: Caller, requester: str | None) -> bool:
    """Whether this caller may decide a call under `rule`, of an event that `requester` sent."""
    return refusal(rule, caller, requester) is None


def may_see(rules: Iterable[ApproverRule], caller: Caller, requester: str | None) -> bool:
    """Whether the caller may know of a pause whose calls have these rules: its requester, whom one of the
    rules names, and administrators.
    """
    if caller.rights & ALL_SEEING_RIGHTS or (requester is not None and caller.subject == requester):
        return True
    return any(named_by(rule, caller, requester) for rule in rules)


def tally(
    rule: ApproverRule,
    requester: str | None,
    votes: Iterable[Vote],
    present: Mapping[str, Caller],
    *,
    args_hash: str | None = None,
    revision: int | None = None,
) -> Tally:
    """Count votes by what is known now: a vote stands only while its key is valid and its holder, with the
    roles and rights of today, still qualifies.

    `present`: the callers of the keys that are valid at this moment, by key id; a key that was revoked or
    has expired is not among them. `args_hash` and `revision`: count only votes on exactly these.
    A subject counts once, whatever number of keys it has.
    """
    approvals: dict[str, None] = {}
    denied_by: str | None = None
    for vote in votes:
        caller = present.get(vote.key_id)
        if caller is None or caller.subject != vote.subject or not qualifies(rule, caller, requester):
            continue
        if revision is not None and vote.revision != revision:
            continue
        if vote.kind == "deny":
            denied_by = denied_by or vote.subject
        elif args_hash is None or vote.args_hash == args_hash:
            approvals[vote.subject] = None
    return Tally(tuple(approvals), denied_by, rule.min_approvals)


def stricter(first: ApproverRule, second: ApproverRule) -> ApproverRule:
    """The rule that satisfies both where one rule can: subjects that both name, the higher number.

    Where they name nobody in common, the second's subjects stand: it is the one of the installation.
    """
    if ANYBODY in first.subjects:
        common = second.subjects
    elif ANYBODY in second.subjects:
        common = first.subjects
    else:
        common = tuple(one for one in first.subjects if one in second.subjects) or second.subjects
    return ApproverRule(
        subjects=common,
        min_approvals=max(first.min_approvals, second.min_approvals),
        separation_of_duty=first.separation_of_duty or second.separation_of_duty,
    )


def _in_words(subject: str) -> str:
    kind, _, name = subject.partition(":")
    match kind:
        case "role":
            return f"the role {name!r}"
        case "user":
            return repr(name)
        case "*":
            return "any caller of the workspace"
        case _:
            return "whoever asked for it"


__all__ = [
    "DEFAULT_RULE",
    "ApprovalRule",
    "ApproverRule",
    "Tally",
    "ToolApprovalPolicy",
    "Vote",
    "check_subject",
    "may_see",
    "named_by",
    "qualifies",
    "refusal",
    "rule_of",
    "stricter",
    "tally",
]
