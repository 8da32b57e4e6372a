"""Who becomes a member, where a browser goes, and what an entry of `sign_in` may say."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.id_tokens import SignInError, check_claims
from hostler.domain.members import MAX_GROUPS, MAX_NAME_CHARS, normal_email, rights_within, subject_of
from hostler.domain.sign_in import (
    MemberRule,
    Person,
    SignInEntry,
    keys_act_until,
    memberships,
    person_of,
    safe_next,
    sign_in_mistakes,
)

pytestmark = pytest.mark.gate("sign-in")

NOW = 1_700_000_000.0
GOOD: dict[str, Any] = {
    "iss": "https://id.example",
    "aud": "c",
    "sub": "ada",
    "nonce": "n",
    "exp": NOW + 300,
    "iat": NOW,
}


def checked(claims: dict[str, Any], tolerance: float = 60.0) -> str:
    try:
        check_claims(
            claims, issuer="https://id.example", client_id="c", nonce="n", now=NOW, tolerance=tolerance
        )
    except SignInError as error:
        return error.message
    return "good"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, "good"),
        ({"aud": ["c"]}, "good"),
        ({"aud": ["c", "d"], "azp": "c"}, "good"),
        ({"azp": "d"}, "azp"),
        ({"aud": ["d"]}, "aud"),
        ({"aud": {"c": 1}}, "aud"),
        ({"aud": None}, "aud"),
        ({"iss": "https://id.example/"}, "issuer"),
        ({"nonce": ""}, "nonce"),
        ({"exp": NOW - 59}, "good"),
        ({"exp": NOW - 60}, "expired"),
        ({"iat": NOW + 60}, "good"),
        ({"iat": NOW + 61}, "future"),
        ({"nbf": NOW + 61}, "future"),
        ({"nbf": NOW + 59}, "good"),
        ({"iat": NOW - 659}, "good"),
        ({"iat": NOW - 661}, "long ago"),
        ({"exp": float("nan")}, "times"),
        ({"exp": float("inf")}, "times"),
        ({"exp": 10**400}, "times"),
        ({"iat": "5"}, "times"),
        ({"iat": False}, "times"),
        ({"sub": "\x7f"}, "subject"),
        ({"sub": ["ada"]}, "subject"),
    ],
)
def test_claims(change: dict[str, Any], word: str) -> None:
    assert word in checked({**GOOD, **change})


def test_a_clock_that_is_off_by_the_tolerance_is_forgiven_and_by_more_is_not() -> None:
    assert checked({**GOOD, "iat": NOW + 5}, tolerance=5.0) == "good"
    assert checked({**GOOD, "iat": NOW + 6}, tolerance=5.0) != "good"


# -- rules --------------------------------------------------------------------------------------------


def person(**more: Any) -> Person:
    fields: dict[str, Any] = {"email": "ada@example.com", "groups": frozenset({"desk"}), **more}
    return Person("https://id.example", "oidc:x:ada", "Ada", **fields)


@pytest.mark.parametrize(
    ("rules", "who", "expected"),
    [
        ([], person(), {}),
        ([{"group": "desk", "role": "owner"}], person(), {"own": "owner"}),
        ([{"group": "desk", "role": "owner"}], person(groups=frozenset()), {}),
        ([{"email_domain": "example.com", "role": "reader"}], person(), {"own": "reader"}),
        ([{"email_domain": "Example.COM", "role": "reader"}], person(), {"own": "reader"}),
        ([{"email_domain": "ample.com", "role": "reader"}], person(), {}),
        ([{"email_domain": "example.com", "role": "reader"}], person(email=None), {}),
        ([{"email": "ADA@example.com", "role": "reader"}], person(), {"own": "reader"}),
        (
            [{"group": "desk", "role": "reader"}, {"email_domain": "example.com", "role": "owner"}],
            person(),
            {"own": "reader"},
        ),
        (
            [{"group": "desk", "role": "reader"}, {"group": "desk", "role": "owner", "workspace": "shop"}],
            person(),
            {"own": "reader", "shop": "owner"},
        ),
        ([{"group": "desk", "role": "administrator"}], person(), {"own": "administrator"}),
        ([{"group": "desk", "role": "administrator", "workspace": "shop"}], person(), {}),
    ],
)
def test_the_first_rule_that_matches_gives_the_role(rules: Any, who: Person, expected: Any) -> None:
    assert memberships([MemberRule(**rule) for rule in rules], who, "own") == expected


def test_a_person_is_what_the_provider_vouches_for_within_bounds() -> None:
    entry = SignInEntry(name="x", issuer="https://id.example", client_id="c", redirect_url="https://h/v1")
    claims = {
        "sub": "a",
        "name": "A\u202e\x1b[31m " + "x" * 1_000,
        "email": "a@b.org",
        "email_verified": False,
        "groups": [f"g{n}" for n in range(1_000)],
    }
    found = person_of(entry, claims)
    assert found.email is None
    assert len(found.groups) == MAX_GROUPS
    assert len(found.name) == MAX_NAME_CHARS
    assert found.name.isprintable()
    assert person_of(entry, {"sub": "a"}).name == "a"
    assert person_of(entry, {"sub": "a", "email": "A@B.org", "email_verified": "true"}).email == "a@b.org"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Ada@Example.com ", "ada@example.com"),
        ("ada", None),
        ("ada@localhost", None),
        ("@b.c", None),
        ("a@b@c.d", None),
        ("a@.c", None),
        ("a@b.", None),
        ("\u0430@b.cd", None),
        ("a b@c.de", None),
        ("a@b.c\n", "a@b.c"),
    ],
)
def test_addresses(text: str, expected: str | None) -> None:
    assert normal_email(text) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/docs", "/docs"),
        ("/a?b=c#d", "/a?b=c#d"),
        (None, "/"),
        ("", "/"),
        ("//x", "/"),
        ("/\\x", "/"),
        ("/a\\b", "/"),
        ("https://x", "/"),
        ("javascript:1", "/"),
        ("/a b", "/"),
        ("/\u00e9", "/"),
        ("/a\nb", "/"),
        ("/" + "a" * 1_000, "/"),
    ],
)
def test_a_browser_goes_to_paths_of_this_host(path: str | None, expected: str) -> None:
    assert safe_next(path) == expected


@pytest.mark.parametrize(
    ("own", "wanted", "held"),
    [
        ("runs:read", "runs:read", "runs:read"),
        ("runs:read", "runs:read events:read", "runs:read"),
        ("runs:read", "events:read", ""),
        ("runs:read events:read", "admin", "runs:read events:read"),
        ("runs:read", "admin installation events:read", "runs:read"),
        ("admin", "runs:read", "runs:read"),
        ("admin", "installation", "admin"),
        ("admin", "admin installation runs:read", "admin"),
        ("installation", "admin runs:read", "admin runs:read"),
        ("installation", "installation", "installation"),
    ],
)
def test_a_personal_key_has_at_most_what_its_member_has(own: str, wanted: str, held: str) -> None:
    """`admin` of somebody who is no owner any more is what that person still has."""
    assert rights_within(frozenset(own.split()), frozenset(wanted.split())) == frozenset(held.split())


def test_no_issuer_makes_people_of_another() -> None:
    assert subject_of("https://id.example", "8443#ada") != subject_of("https://id.example:8443", "ada")
    assert subject_of("https://id.example", ":8443#ada") != subject_of("https://id.example:8443", "ada")


# -- entries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"issuer": "http://id.example"}, "issuer"),
        ({"issuer": "https://a:b@id.example"}, "issuer"),
        ({"issuer": "https://id.example?x"}, "issuer"),
        ({"issuer": "https://id.example#"}, "issuer"),
        ({"issuer": "id.example"}, "issuer"),
        ({"issuer": "https://id.example:bad"}, "issuer"),
        ({"redirect_url": "https://h.example/elsewhere"}, "redirect_url"),
        ({"redirect_url": "http://h.example/v1/auth/callback"}, "redirect_url"),
        ({"client_id": ""}, "client_id"),
        ({"client_secret": "written out"}, "client_secret"),
        ({"client_secret": "env:"}, "client_secret"),
        ({"scopes": ["profile"]}, "scopes"),
        ({"scopes": ["openid", "a b"]}, "scopes"),
        ({"algorithms": []}, "algorithms"),
        ({"name": "a b"}, "name"),
        ({"members": [{"role": "reader"}]}, "members[0]"),
        ({"members": [{"role": "reader", "group": "a", "email": "a@b.c"}]}, "members[0]"),
        ({"members": [{"role": "reader", "email_domain": "@b.c"}]}, "members[0]"),
        ({"members": [{"role": "administrator", "email_domain": "b.c"}]}, "members[0]"),
        ({"members": [{"role": "reader", "email": "a"}]}, "members[0]"),
        ({"members": [{"role": "reader", "group": ""}]}, "members[0]"),
        ({"members": [{"role": "reader", "group": "a"}] * 501}, "members"),
    ],
)
def test_mistakes_of_entries(change: dict[str, Any], place: str) -> None:
    fields: dict[str, Any] = {
        "name": "corp",
        "issuer": "https://id.example",
        "client_id": "c",
        "redirect_url": "https://h.example/v1/auth/callback",
        "client_secret": "env:S",
        **change,
    }
    fields["members"] = [MemberRule(**rule) for rule in fields.get("members", [])]
    assert place in [mistake.place for mistake in sign_in_mistakes(SignInEntry(**fields))]


def test_a_good_entry_has_none_and_http_is_for_loopback() -> None:
    for base in ("https://h.example", "http://127.0.0.1:8420", "http://localhost:8420"):
        entry = SignInEntry(
            name="corp",
            issuer="http://localhost:8080/realms/x",
            client_id="c",
            redirect_url=f"{base}/v1/auth/callback",
        )
        assert sign_in_mistakes(entry) == []
        assert (entry.origin, entry.secure) == (base, base.startswith("https"))


def test_personal_keys_act_for_days_after_the_last_sign_in() -> None:
    url = "https://h.example/v1/auth/callback"
    one = SignInEntry(
        name="one", issuer="https://a.example", client_id="c", redirect_url=url, personal_key_days=2
    )
    two = SignInEntry(name="two", issuer="https://b.example", client_id="c", redirect_url=url)
    day = 86_400_000
    assert keys_act_until([one, two], "oidc:https://a.example#ada", 5) == 5 + 2 * day
    assert keys_act_until([one, two], "oidc:https://b.example#ada", 5) == 5 + 30 * day
    assert keys_act_until([one, two], "oidc:https://c.example#ada", 5) == 0
    assert keys_act_until([one, two], "oidc:https://a.example.evil#ada", 5) == 0
    assert keys_act_until([one, two], subject_of("https://a.example:8443", "ada"), 5) == 0
    assert keys_act_until([], "oidc:https://a.example#ada", 5) == 0
