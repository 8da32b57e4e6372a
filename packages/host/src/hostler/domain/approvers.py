"""Who may decide a call: the rule frozen when its pause opens, and which votes still count.

A subject of a rule is `requester` (the authenticated subject that sent the event), `role:NAME`, `user:NAME`,
`group:NAME` (of members, as their identity provider names it), `member:ADDRESS` (a member's verified e-mail
address), `person:CHANNEL/ID` (somebody as a channel's platform names them) or `*` (any authenticated caller
of the workspace). Identity comes from authentication alone: a `Caller` is built from a key, a session or what
the connection of a channel says, never from the contents of a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from hostler.domain.events import Caller
from hostler.domain.members import normal_email
from hostler.domain.pauses import CallKind, OnExpiry
from hostler.domain.record import Record
from hostler_protocol._base import Strict
from hostler_protocol.pausing import expiry_misfit

_NAMING = ("role", "user", "group", "member", "person")
REQUESTER = "requester"
ANYBODY = "*"
DEFAULT_SUBJECTS = ("requester", "role:admin")
MAX_SUBJECTS = 100
"""Subjects of one rule, which is stored with every call that it guards."""
MAX_APPROVALS = 20
"""Approvals that one call may require; each is another person to be found in time."""

DECIDING_RIGHTS = frozenset({"pauses:write", "admin", "installation"})
"""A key needs one of these to decide. Tokens of plugin processes and of runs have none of them."""
BLIND_RIGHTS = frozenset({"pauses:decide_blind", "admin", "installation"})
"""A key needs one of these to approve or deny without the digest of the arguments that were shown."""
ALL_SEEING_RIGHTS = frozenset({"admin", "installation"})

ANSWERED: frozenset[CallKind] = frozenset({"question", "client_tool"})
"""Calls that are answered: who is `answers_only` decides no others."""

VoteKind = Literal["approve", "deny"]
ApprovalRule = Literal["never", "required"]


def check_subject(subject: str) -> None:
    """Check a subject of a rule. ValueError if it has none of the forms."""
    if subject in (REQUESTER, ANYBODY):
        return
    kind, colon, name = subject.partition(":")
    if not colon or kind not in _NAMING or not name or name != name.strip() or "\x00" in name:
        raise ValueError(
            f"{subject!r} is no subject: expected requester, role:NAME, user:NAME, group:NAME, "
            "member:ADDRESS, person:CHANNEL/ID, or * for any caller"
        )
    if kind == "person" and not all(name.partition("/")):
        raise ValueError(f"{subject!r} names no person: write person:CHANNEL/ID, with the platform's own id")
    if kind == "member" and normal_email(name) != name:
        raise ValueError(f"{subject!r} names no member: write the e-mail address in lower case")


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
    """If nobody answers in time, the run resumes with `expired` as the outcome, or is cancelled."""

    def __post_init__(self) -> None:
        if not self.subjects:
            raise ValueError("subjects is empty: so nobody could approve; leave it out for the default")
        for subject in self.subjects:
            check_subject(subject)
        if not 1 <= self.min_approvals <= MAX_APPROVALS:
            raise ValueError(f"min_approvals is {self.min_approvals}; 1 to {MAX_APPROVALS} are possible")
        if (misfit := expiry_misfit(self.expires_in)) is not None:
            raise ValueError(misfit)


class ApproverRule(Strict):
    """Who may decide one call, frozen when its pause opens. `min_approvals` counts different subjects;
    with `separation_of_duty` the requester may not decide.
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
"""The rule for questions, client tools, and approvals that have no rule."""


class Vote(Record):
    """One vote: subject and key of the voter, and the digest and revision of the arguments voted on."""

    key_id: str
    subject: str
    kind: VoteKind
    args_hash: str = ""
    revision: int = 1


class Tally(Record):
    """The counted votes of a call. `approvals`: subjects whose approval counts, in the order they voted."""

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
    """Return the rule of a tool's approval policy, or the default rule without a policy."""
    if policy is None:
        return DEFAULT_RULE
    return ApproverRule(
        subjects=tuple(dict.fromkeys(policy.subjects)),
        min_approvals=policy.min_approvals,
        separation_of_duty=policy.separation_of_duty,
    )


def named_by(rule: ApproverRule, caller: Caller, requester: str | None) -> bool:
    """Whether a subject of the rule matches the caller, regardless of rights and separation of duty."""
    return any(_names(subject, caller, requester) for subject in rule.subjects)


def _names(subject: str, caller: Caller, requester: str | None) -> bool:
    kind, _, name = subject.partition(":")
    if subject in (ANYBODY, REQUESTER):
        return subject == ANYBODY or (requester is not None and caller.subject == requester)
    match kind:
        case "role":
            return name in caller.roles
        case "group":
            return name in caller.groups
    named = {"user": caller.subject, "member": caller.email, "person": caller.person}
    return name == named.get(kind)


def refusal(rule: ApproverRule, caller: Caller, requester: str | None) -> str | None:
    """Return why the caller may not decide, as a sentence, or None if it may."""
    if not caller.rights & DECIDING_RIGHTS:
        return "this key has no right 'pauses:write'"
    if rule.separation_of_duty and requester is not None and caller.subject == requester:
        return "the requester may not decide this: another person has to"
    if not named_by(rule, caller, requester):
        return f"this is for {' or '.join(map(_in_words, rule.subjects))} to decide"
    return None


def refusal_of_kind(kind: CallKind, rule: ApproverRule, caller: Caller, requester: str | None) -> str | None:
    """Return why the caller may not decide a call of this kind, as a sentence, or None if it may."""
    if caller.answers_only and kind not in ANSWERED:
        return "visitors of a web page approve nothing: a person elsewhere has to decide this"
    return refusal(rule, caller, requester)


def qualifies(rule: ApproverRule, caller: Caller, requester: str | None) -> bool:
    """Whether the caller may decide a call under `rule`; `requester` is the subject that sent the event."""
    return refusal(rule, caller, requester) is None


def may_see(rules: Iterable[ApproverRule], caller: Caller, requester: str | None) -> bool:
    """Whether the caller may see a pause whose calls have these rules.

    The requester, subjects of one of the rules, and administrators may.
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
    """Count votes as of now: a vote counts only while its key is valid and the key's holder, with current
    roles and rights, still qualifies.

    `present`: callers by key id, for keys that are valid now; revoked and expired keys are absent.
    `args_hash` and `revision`: count only votes on exactly these. A subject counts once, however many keys
    it has.
    """
    approvals: dict[str, None] = {}
    denied_by: str | None = None
    for vote in votes:
        caller = present.get(vote.key_id)
        if caller is None or caller.answers_only or caller.subject != vote.subject:
            continue
        if not qualifies(rule, caller, requester):
            continue
        if revision is not None and vote.revision != revision:
            continue
        if vote.kind == "deny":
            denied_by = denied_by or vote.subject
        elif args_hash is None or vote.args_hash == args_hash:
            approvals[vote.subject] = None
    return Tally(tuple(approvals), denied_by, rule.min_approvals)


def stricter(first: ApproverRule, second: ApproverRule) -> ApproverRule:
    """Combine two rules: the subjects named by both, the higher number of approvals.

    Without common subjects those of `second` apply, which is the installation's rule.
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
        case "user" | "member":
            return repr(name)
        case "group":
            return f"the group {name!r}"
        case "person":
            return f"{name.partition('/')[2]!r} in channel {name.partition('/')[0]}"
        case "*":
            return "any caller of the workspace"
        case _:
            return "the requester"
