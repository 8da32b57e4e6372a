"""Sign-in with OpenID Connect: the entries of `sign_in` in a configuration, and who is a member. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from hostler.domain.config_mistakes import Mistake
from hostler.domain.members import (
    MAX_GROUPS,
    MAX_NAME_CHARS,
    MemberRole,
    domain_of,
    normal_email,
    subject_of,
)
from hostler.domain.record import Record
from hostler.domain.secret_refs import is_reference, reference_mistake
from hostler_protocol._base import Strict

MAX_PROVIDERS = 20
MAX_RULES = 500
"""Rules of one entry."""
MAX_NEXT_CHARS = 1_000
MAX_SUBJECT_CHARS = 255
"""The longest `sub` that OpenID Connect allows."""
_DAY_MS = 86_400_000
CALLBACK_PATH = "/v1/auth/callback"
_NO_REFERENCE = "its secret is named by env:NAME, file:PATH or secret://NAME, never written out"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
SigningAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""Signatures with a public key. `none` and those with a shared secret (HS256) are no choice."""


class MemberRule(Strict):
    """Who becomes a member with which role. Exactly one of `group`, `email` and `email_domain` is set.

    An address counts only if the provider says that it is verified. `workspace`: null for the own.
    """

    role: MemberRole
    group: str | None = None
    email: str | None = None
    email_domain: str | None = None
    workspace: str | None = None


class SignInEntry(Strict):
    """An identity provider with which people sign in.

    `issuer`: its URL, as its tokens name it. `client_secret` is a reference; null for a public client.
    `redirect_url`: the address of this host's callback, as people's browsers reach it, registered with the
    provider. `network`: hosts and networks that are not public and that the provider may have. `algorithms`:
    the signatures that are accepted. `clock_tolerance` in seconds. A session ends `session_hours` after its
    sign-in, or after `idle_minutes` without a request. Personal keys rest `personal_key_days` after the last
    sign-in of their person, until the next one: the host learns only then who has left.
    """

    name: str
    issuer: str
    client_id: str
    redirect_url: str
    client_secret: str | None = None
    scopes: list[str] = msgspec.field(default_factory=lambda: ["openid", "profile", "email"])
    algorithms: list[SigningAlgorithm] = msgspec.field(default_factory=lambda: ["RS256", "ES256"])
    groups_claim: str = "groups"
    members: list[MemberRule] = []
    network: list[str] = []
    clock_tolerance: Annotated[float, msgspec.Meta(ge=0, le=300)] = 60.0
    session_hours: Annotated[float, msgspec.Meta(gt=0, le=24 * 30)] = 12.0
    idle_minutes: Annotated[float, msgspec.Meta(gt=0, le=60 * 24 * 30)] = 60.0
    personal_key_days: Annotated[float, msgspec.Meta(gt=0, le=366)] = 30.0

    @property
    def origin(self) -> str:
        """The origin of this host, as browsers send it."""
        parts = urlsplit(self.redirect_url)
        return f"{parts.scheme}://{parts.netloc}".lower()

    @property
    def secure(self) -> bool:
        """Whether people reach this host by https."""
        return self.redirect_url.startswith("https://")


def sign_in_mistakes(entry: SignInEntry) -> list[Mistake]:
    """Return the mistakes of an entry."""
    found = []
    if not _NAME.fullmatch(entry.name):
        found.append(
            Mistake("name", f"{entry.name!r:.80} is no name: 1 to 100 letters, digits, '_', '.', '-'")
        )
    if (wrong := _url_mistake(entry.issuer)) is not None:
        found.append(Mistake("issuer", wrong))
    if not entry.client_id or not entry.client_id.isprintable() or not entry.client_id.isascii():
        found.append(Mistake("client_id", "expected the id that the provider gave this host"))
    if (wrong := _redirect_mistake(entry.redirect_url)) is not None:
        found.append(Mistake("redirect_url", wrong))
    found += _secret_mistakes(entry)
    if "openid" not in entry.scopes or any(not one or " " in one or '"' in one for one in entry.scopes):
        found.append(Mistake("scopes", "expected a list of words with openid among them"))
    if not entry.algorithms:
        found.append(Mistake("algorithms", "is empty: so no token could be accepted"))
    if len(entry.members) > MAX_RULES:
        found.append(
            Mistake("members", f"has {len(entry.members):,} rules; at most {MAX_RULES} are possible")
        )
    for number, rule in enumerate(entry.members[:MAX_RULES]):
        if (wrong := _rule_mistake(rule)) is not None:
            found.append(Mistake(f"members[{number}]", wrong))
    return found


def _secret_mistakes(entry: SignInEntry) -> list[Mistake]:
    secret = entry.client_secret
    if secret is None:
        return []
    if not is_reference(secret):
        return [Mistake("client_secret", _NO_REFERENCE)]
    wrong = reference_mistake(secret)
    return [] if wrong is None else [Mistake("client_secret", wrong)]


def _url_mistake(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "this is no URL"
    if parts.scheme not in ("https", "http") or not parts.hostname:
        return "expected a URL that begins with https://"
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        return "expected https: by http anybody on the way could sign in as anybody (http is for loopback)"
    if not {"?", "#"}.isdisjoint(url) or "@" in parts.netloc or not url.isascii() or not url.isprintable():
        return "expected a URL without user name, query and fragment"
    return None


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")


def _redirect_mistake(url: str) -> str | None:
    if (wrong := _url_mistake(url)) is not None:
        return wrong
    if urlsplit(url).path != CALLBACK_PATH:
        return f"expected the address of this host's callback: https://HOST{CALLBACK_PATH}"
    return None


def _rule_mistake(rule: MemberRule) -> str | None:
    if sum(one is not None for one in (rule.group, rule.email, rule.email_domain)) != 1:
        return "expected one of group, email and email_domain"
    if rule.group == "" or rule.workspace == "":
        return "group and workspace must not be empty"
    if rule.email is not None and normal_email(rule.email) is None:
        return f"{rule.email!r:.80} is no e-mail address"
    if rule.email_domain is not None and not _DOMAIN.fullmatch(rule.email_domain.lower()):
        return f"{rule.email_domain!r:.80} is no domain: write example.com"
    if rule.role == "administrator" and rule.email_domain is not None:
        return "a whole domain cannot be administrator of the installation: name a group or an address"
    return None


# -- people -----------------------------------------------------------------------------------------------


class Person(Record):
    """Who signed in, as the provider vouches. `email` only if it is verified."""

    issuer: str
    subject: str
    name: str
    email: str | None
    groups: frozenset[str]


def person_of(entry: SignInEntry, claims: Mapping[str, Any]) -> Person:
    """Return the person of checked claims. What is missing or malformed is left out; `sub` was checked."""
    email = claims.get("email")
    verified = claims.get("email_verified") is True or claims.get("email_verified") == "true"
    address = normal_email(email) if isinstance(email, str) and verified else None
    groups = claims.get(entry.groups_claim)
    names = [one for one in groups if isinstance(one, str)] if isinstance(groups, list) else []
    return Person(
        issuer=entry.issuer,
        subject=subject_of(entry.issuer, claims["sub"]),
        name=_name(claims, address),
        email=address,
        groups=frozenset(names[:MAX_GROUPS]),
    )


def _name(claims: Mapping[str, Any], email: str | None) -> str:
    for claim in ("name", "preferred_username"):
        text = claims.get(claim)
        if isinstance(text, str) and (shown := " ".join("".join(filter(_shown, text)).split())):
            return shown[:MAX_NAME_CHARS]
    return email or str(claims["sub"])[:MAX_NAME_CHARS]


def _shown(char: str) -> bool:
    return char.isprintable()


def wants_userinfo(entry: SignInEntry, claims: Mapping[str, Any]) -> bool:
    """Whether rules need claims that the token does not have."""
    by_group = any(rule.group is not None for rule in entry.members)
    return (by_group and entry.groups_claim not in claims) or "email" not in claims


def memberships(rules: Iterable[MemberRule], person: Person, own_workspace: str) -> dict[str, MemberRole]:
    """Return the role of a person in each workspace, by the first rule that matches there."""
    found: dict[str, MemberRole] = {}
    for rule in rules:
        workspace = own_workspace if rule.workspace is None else rule.workspace
        if _matches(rule, person) and workspace not in found:
            found[workspace] = rule.role
    return {
        workspace: role
        for workspace, role in found.items()
        if role != "administrator" or workspace == own_workspace
    }


def _matches(rule: MemberRule, person: Person) -> bool:
    if rule.group is not None:
        return rule.group in person.groups
    if person.email is None:
        return False
    if rule.email is not None:
        return normal_email(rule.email) == person.email
    return rule.email_domain is not None and rule.email_domain.lower() == domain_of(person.email)


def keys_act_until(entries: Iterable[SignInEntry], subject: str, signed_in_at: int) -> int:
    """Return until when personal keys of a person act, in epoch milliseconds; 0 without the provider's entry.

    `signed_in_at`: the person's last sign-in, in milliseconds.
    """
    of_issuer = [entry for entry in entries if subject.startswith(subject_of(entry.issuer, ""))]
    return max((signed_in_at + int(entry.personal_key_days * _DAY_MS) for entry in of_issuer), default=0)


# -- where to go afterwards -------------------------------------------------------------------------------


def safe_next(path: str | None) -> str:
    """Return where a browser goes after the sign-in: a path of this host, or `/` for anything else.

    Browsers read `//host`, `/\\\\host` and tabs or line ends within as another host.
    """
    if not path or len(path) > MAX_NEXT_CHARS or not path.startswith("/") or path.startswith(("//", "/\\")):
        return "/"
    if not path.isascii() or not path.isprintable() or " " in path or "\\" in path:
        return "/"
    parts = urlsplit(path)
    return "/" if parts.scheme or parts.netloc else path
