"""Members of a workspace: people who sign in, their roles, and the rights that a role has. Pure.

A member is known by the subject that an identity provider vouches for. It has one role; the rights of a role
are those that keys have too (http/auth.py).
"""

from __future__ import annotations

from typing import Literal, get_args

MemberRole = Literal["administrator", "owner", "operator", "approver", "reader"]
ROLES: tuple[MemberRole, ...] = get_args(MemberRole)
"""From the most to the least rights."""
MemberSource = Literal["invited", "claims"]
"""`invited`: added by hand, which claims do not change. `claims`: by a rule of `sign_in`, at each sign-in."""

_READS = frozenset(
    {
        "events:read",
        "runs:read",
        "conversations:read",
        "agents:read",
        "artifacts:read",
        "plugins:read",
        "models:read",
        "knowledge:read",
        "usage:read",
        "budgets:read",
        "workers:read",
    }
)
ROLE_RIGHTS: dict[MemberRole, frozenset[str]] = {
    "administrator": frozenset({"installation"}),
    "owner": frozenset({"admin"}),
    "operator": _READS
    | {
        "events:write",
        "runs:write",
        "conversations:write",
        "agents:write",
        "artifacts:write",
        "pauses:read",
        "pauses:write",
        "secrets:read",
        "audit:read",
        "workers:write",
        "knowledge:write",
    },
    "approver": _READS | {"pauses:read", "pauses:write"},
    "reader": _READS,
}
"""`owner` has everything in the workspace; `administrator` also what all workspaces share. Values of secrets,
money and members are an owner's: an operator sees which secrets there are, and everybody what is left."""
ADMIN_ROLES: frozenset[MemberRole] = frozenset({"administrator", "owner"})
"""Roles that approver rules also find as `role:admin`."""

PERSON_PREFIX = "oidc:"
"""Begins the subjects of people who sign in, and of nobody else."""
MEMBER_KEY_PREFIX = "member:"
SESSION_PREFIX = "session:"
MAX_MEMBERS = 10_000
"""Members of one workspace."""
MAX_GROUPS = 200
"""Groups that are kept of one member; a token may name more."""
MAX_NAME_CHARS = 200
MAX_EMAIL_CHARS = 254
"""The longest address that mail servers deliver to."""


def is_person(subject: str) -> bool:
    """Whether a subject is that of a person who signs in, and not of a key."""
    return subject.startswith(PERSON_PREFIX)


def member_key(member_id: str) -> str:
    """Return the id under which votes and rates of a member are counted, as a key's id is for a key."""
    return MEMBER_KEY_PREFIX + member_id


def member_of_key(key_id: str) -> str | None:
    """Return the member whose key id this is, or None if it is that of a key."""
    return key_id.removeprefix(MEMBER_KEY_PREFIX) if key_id.startswith(MEMBER_KEY_PREFIX) else None


def session_credential(session_id: str) -> str:
    """Return the id that a session has among credentials, where keys have their own."""
    return SESSION_PREFIX + session_id


def session_of_credential(credential_id: str) -> str | None:
    """Return the id of the session that a credential is, or None if it is a key."""
    return credential_id.removeprefix(SESSION_PREFIX) if credential_id.startswith(SESSION_PREFIX) else None


def roles_of(role: MemberRole) -> frozenset[str]:
    """Return the roles that approver rules look at."""
    return frozenset({role, "admin"} if role in ADMIN_ROLES else {role})


def subject_of(issuer: str, sub: str) -> str:
    """Return the subject under which a person acts, in facts and in approver rules.

    No issuer has a `#` (OpenID Connect Discovery 1.0, section 3), so that no `sub` of one makes a person of
    another whose URL goes on where the first one ends.
    """
    return f"{PERSON_PREFIX}{issuer}#{sub}"


def normal_email(text: str) -> str | None:
    """Return an e-mail address in the form in which it is compared, or None if it is none.

    Only ASCII: letters that look alike would let one address pass for another.
    """
    email = text.strip().lower()
    local, at, domain = email.rpartition("@")
    if not at or not local or "." not in domain.strip(".") or domain != domain.strip("."):
        return None
    fits = len(email) <= MAX_EMAIL_CHARS and email.isascii() and email.isprintable() and " " not in email
    return email if fits and "@" not in local else None


def domain_of(email: str) -> str:
    """Return the domain of an address in its normal form."""
    return email.rpartition("@")[2]


def rights_within(own: frozenset[str], wanted: frozenset[str]) -> frozenset[str]:
    """Return the rights of a personal key: those that it was given and that its member still has.

    `installation` holds every right, `admin` every one but that.
    """
    for wide in ("installation", "admin"):
        if wide in own:
            return wanted
        if wide in wanted:
            return own
    return wanted & own
