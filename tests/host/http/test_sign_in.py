"""People sign in with an identity provider that speaks the true wire, honestly and not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from hostler.domain.sign_in import SignInEntry
from hostler.host import identity_providers
from hostler.host.config import ConfigFile
from hostler.http.limits import SIGN_IN_BURST
from support.identity_provider import CLIENT, SECRET, Browser, FakeProvider
from support.sign_in_desk import desk, entry_for

pytestmark = pytest.mark.gate("sign-in")


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)


# -- the whole way ------------------------------------------------------------------------------------


async def test_a_person_signs_in_reads_with_the_role_and_signs_out(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser = made.browser()
        page = await browser.get("/sign-in?next=/docs%3Fa%3Db")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-frame-options"] == "DENY"
        assert "Sign in with corp" in page.text
        answer = await browser.sign_in(made.provider, next="/docs?a=b")
        assert answer.headers["location"] == "/docs?a=b"
        assert answer.headers["referrer-policy"] == "no-referrer"
        (begun, session, dropped) = browser.set
        assert "HttpOnly" in begun
        assert session.startswith("hostler-session=")
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(session.split("; "))
        assert dropped.startswith("hostler-sign-in=;")

        me = (await browser.get("/v1/auth/session")).json()
        subject = f"oidc:{made.provider.issuer}#ada-1"
        assert (me["subject"], me["name"], me["email"]) == (subject, "Ada", "ada@example.com")
        assert (me["role"], me["workspace_id"], me["groups"]) == ("approver", "default", ["desk"])
        assert me["workspaces"] == [
            {"workspace_id": "default", "member_id": me["member_id"], "role": "approver"}
        ]
        assert (await browser.get("/v1/runs")).status_code == 200
        refused = await browser.get("/v1/members")
        assert (refused.status_code, "'admin'" in refused.json()["detail"]) == (403, True)

        (opened,) = await made.facts("session.opened")
        assert (opened["actor"], opened["actor_name"], opened["target"]) == (subject, "Ada", me["session_id"])
        out = await browser.request("POST", "/v1/auth/sign-out")
        assert out.status_code == 200
        assert out.json()["url"].startswith(f"{made.provider.issuer}/leave?client_id={CLIENT}&post_logout")
        assert "hostler-session" not in browser.cookies
        assert (await browser.get("/v1/auth/session")).status_code == 401
        assert len(await made.facts("session.ended")) == 1


async def test_behind_https_the_cookies_are_bound_to_the_host(tmp_path: Path) -> None:
    async with desk(tmp_path, redirect_url="https://hostler.example/v1/auth/callback") as made:
        browser = made.browser()
        browser.origin = "https://hostler.example"
        await browser.sign_in(made.provider)
        for text in browser.set[:2]:
            assert text.startswith("__Host-hostler-")
            assert "Secure" in text.split("; ")
            assert "Domain" not in text
        assert (await browser.request("DELETE", "/v1/auth/sessions/none")).status_code == 404
        # a cookie of the name without the prefix, which http may set, is none
        token = browser.cookies.pop("__Host-hostler-session")
        browser.cookies["hostler-session"] = token
        assert (await browser.get("/v1/auth/session")).status_code == 401


async def test_each_sign_in_has_a_token_of_its_own_and_ends_the_one_before(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser = await made.signed_in()
        first = browser.cookies["hostler-session"]
        await browser.sign_in(made.provider)
        assert browser.cookies["hostler-session"] != first
        old = Browser(made.served.url, {"hostler-session": first})
        assert (await old.get("/v1/auth/session")).status_code == 401
        (ended,) = await made.facts("session.ended")
        assert (ended["actor_name"], ended["body"]["cause"]) == ("Ada", "signed in again")


async def test_claims_that_the_token_lacks_come_from_the_userinfo(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        made.provider.in_token = False
        browser = await made.signed_in()
        assert (await browser.get("/v1/auth/session")).json()["role"] == "approver"
        made.provider.userinfo = {"sub": "somebody else"}
        answer = await made.browser().sign_in(made.provider)
        assert answer.headers["location"] == "/sign-in?problem=token"


async def test_keys_change_and_elliptic_ones_too(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        await made.signed_in()
        await made.signed_in()
        assert made.provider.paths().count("/keys") == 1
        made.provider.rotate("EC", keep=True)
        made.served.host.providers.find("corp")._keys_at -= 60  # type: ignore[union-attr,operator]
        await made.signed_in()
        assert made.provider.paths().count("/keys") == 2
        # a key that was withdrawn is refused once the keys were read again; strangers cause no more looks
        looks = made.provider.paths().count("/keys")
        made.provider.key = RSAKey.generate_key(2048, {"kid": "of nobody"})
        made.provider.alg = "RS256"
        for _ in range(5):
            answer = await made.browser().sign_in(made.provider)
            assert answer.headers["location"] == "/sign-in?problem=token"
        assert made.provider.paths().count("/keys") == looks


# -- lies of the provider, or of somebody in between ---------------------------------------------------


def claim(**changes: Any) -> Callable[[FakeProvider], None]:
    return lambda provider: provider.claims.update(changes)


def token(make: Callable[[FakeProvider, dict[str, Any]], str]) -> Callable[[FakeProvider], None]:
    """Another token for the grant that the browser gets."""

    def lie(provider: FakeProvider) -> None:
        provider.sign = lambda claims, **_: make(provider, claims)  # type: ignore[method-assign]

    return lie


def resigned(provider: FakeProvider, claims: dict[str, Any]) -> str:
    head, _, signature = FakeProvider.sign(provider, claims).split(".")
    other = FakeProvider.sign(provider, {**claims, "sub": "root"}).split(".")[1]
    return f"{head}.{other}.{signature}"


def answer(path: str, status: int, body: bytes) -> Callable[[FakeProvider], None]:
    return lambda provider: provider.answers.update({path: (status, body)})


def now() -> int:
    return int(time.time())


def with_own_key(provider: FakeProvider, claims: dict[str, Any]) -> str:
    own = RSAKey.generate_key(2048, {"kid": "mine"})
    provider.header = {"jwk": own.as_dict(private=False), "kid": "mine"}
    return FakeProvider.sign(provider, claims, key=own)


LIES: dict[str, Callable[[FakeProvider], None]] = {
    "another nonce": claim(nonce="of another sign-in"),
    "no nonce": claim(nonce=...),
    "another issuer": claim(iss="https://evil.example"),
    "an issuer that only looks the same": lambda provider: provider.claims.update(iss=f"{provider.issuer}/"),
    "another audience": claim(aud="another client"),
    "many audiences, and another party": claim(aud=[CLIENT, "another"], azp="another"),
    "many audiences, and no party": claim(aud=[CLIENT, "another"]),
    "an audience that holds the right one": claim(aud=f"{CLIENT} evil"),
    "expired": claim(exp=now() - 3_600),
    "no end": claim(exp=...),
    "an end that is a text": claim(exp="tomorrow"),
    "not a number": claim(exp=True),
    "of the future": claim(iat=now() + 3_600),
    "not yet good": claim(nbf=now() + 3_600),
    "made long ago": claim(iat=now() - 86_400),
    "no subject": claim(sub=...),
    "an empty subject": claim(sub=""),
    "a subject that is no text": claim(sub=5),
    "a subject of many lines": claim(sub="a\nb"),
    "a long subject": claim(sub="x" * 300),
    "alg none": token(lambda provider, claims: provider.unsigned(claims)),
    "alg None": token(lambda provider, claims: provider.unsigned(claims, "None")),
    "alg HS256 with the public key": token(lambda provider, claims: provider.with_shared_secret(claims)),
    "alg that is not allowed": token(
        lambda provider, claims: FakeProvider.sign(provider, claims, alg="PS256")
    ),
    "signed by a stranger under the same kid": token(
        lambda provider, claims: FakeProvider.sign(
            provider, claims, key=RSAKey.generate_key(2048, {"kid": provider.key.kid})
        )
    ),
    "changed after it was signed": token(resigned),
    "a critical header": lambda provider: provider.header.update(crit=["x"], x=1),
    "a key in the header": token(with_own_key),
    "no token at all": answer("/token", 200, b'{"id_token": "x.y.z"}'),
    "a token of five parts": answer("/token", 200, b'{"id_token": "a.b.c.d.e"}'),
    "a huge token": token(
        lambda provider, claims: FakeProvider.sign(provider, {**claims, "pad": "x" * 70_000})
    ),
    "keys that cannot be used": answer("/keys", 200, b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}'),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_token_that_is_not_for_this_sign_in_opens_nothing(tmp_path: Path, lie: str) -> None:
    async with desk(tmp_path) as made:
        LIES[lie](made.provider)
        browser = made.browser()
        refused = await browser.sign_in(made.provider)
        assert refused.headers["location"] == "/sign-in?problem=token", refused.headers
        assert not browser.cookies
        assert await made.facts("session.opened") == []


OUTAGES: dict[str, Callable[[FakeProvider], None]] = {
    "the token's place answers with an error": answer("/token", 500, b"oops"),
    "the token's place redirects": answer("/token", 302, b""),
    "the token's place says no JSON": answer("/token", 200, b"<html>"),
    "the token's place says far too much": answer("/token", 200, b'{"id_token": "' + b"x" * 400_000 + b'"}'),
    "the token's place never answers": lambda provider: provider.hangs.add("/token"),
    "the keys are no JSON": answer("/keys", 200, b"[1, 2"),
    "the keys redirect": answer("/keys", 302, b""),
    "the keys never come": lambda provider: provider.hangs.add("/keys"),
}


@pytest.mark.parametrize("outage", OUTAGES)
async def test_a_provider_that_fails_is_a_word_for_the_person_and_a_line_for_the_operator(
    tmp_path: Path, outage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = identity_providers.REQUEST_LIMITS
    short = type(limits)(seconds=0.5, max_bytes=limits.max_bytes, max_redirects=0)
    monkeypatch.setattr(identity_providers, "REQUEST_LIMITS", short)
    async with asyncio.timeout(60), desk(tmp_path) as made:
        OUTAGES[outage](made.provider)
        refused = await made.browser().sign_in(made.provider)
        assert refused.headers["location"] == "/sign-in?problem=provider"
        assert "a sign-in with corp was refused" in caplog.text
        assert SECRET not in caplog.text


DESCRIPTIONS: dict[str, dict[str, Any]] = {
    "of another issuer": {"issuer": "https://evil.example"},
    "tokens at an address inside": {"token_endpoint": "http://169.254.169.254/token"},
    "keys at an address inside": {"jwks_uri": "http://10.0.0.1/keys"},
    "userinfo in a file": {"userinfo_endpoint": "file:///etc/passwd"},
    "keys at another port of this machine": {"jwks_uri": "http://127.0.0.1:1/keys"},
    "a place for browsers that is a script": {"authorization_endpoint": "javascript:alert(1)"},
    "a place to leave that is a script": {"end_session_endpoint": "data:text/html,x"},
    "an endpoint with a user": {"token_endpoint": "http://a@127.0.0.1/token"},
    "no endpoint": {"token_endpoint": None},
}


@pytest.mark.parametrize("what", DESCRIPTIONS)
async def test_what_a_provider_says_of_itself_leads_nowhere_else(tmp_path: Path, what: str) -> None:
    async with desk(tmp_path) as made:
        made.provider.metadata = DESCRIPTIONS[what]
        refused = await made.browser().get("/v1/auth/sign-in")
        assert (refused.status_code, refused.headers["location"]) == (303, "/sign-in?problem=provider")
        assert made.provider.paths() == ["/.well-known/openid-configuration"]
        problems = (await made.served.client.get("/v1/problems")).json()["items"]
        assert [(one["kind"], one["name"]) for one in problems] == [("sign_in", "corp")]


async def test_a_provider_that_fails_is_not_asked_again_at_once(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        made.provider.answers["/.well-known/openid-configuration"] = (500, b"")
        for _ in range(10):
            refused = await made.browser().get("/v1/auth/sign-in")
            assert refused.headers["location"] == "/sign-in?problem=provider"
        assert len(made.provider.asked) == 1
        made.provider.answers.clear()
        provider = made.served.host.providers.find("corp")
        assert provider is not None
        provider._failed_at -= identity_providers.FAILURE_SECONDS
        await made.signed_in()


async def test_an_https_issuer_names_no_http_endpoints() -> None:
    from hostler.egress import Egress, EgressPolicy
    from hostler.host.identity_providers import IdentityProvider, ProviderError

    entry = SignInEntry(
        name="x",
        issuer="https://id.example",
        client_id="c",
        redirect_url="https://h.example/v1/auth/callback",
    )
    provider = IdentityProvider(entry, Egress(EgressPolicy.of()))
    with pytest.raises(ProviderError) as refused:
        provider._check_endpoint("http://id.example/token")
    assert "not https" in refused.value.detail
    provider._check_endpoint("https://id.example/token")


# -- answers that are not this browser's ---------------------------------------------------------------


async def problem_of(browser: Browser, path: str) -> str:
    answered = await browser.get(path)
    assert answered.status_code == 303
    location: str = answered.headers["location"]
    return location.removeprefix("/sign-in?problem=")


async def test_the_answer_of_another_browser_signs_nobody_in(tmp_path: Path) -> None:
    """State fixation: the callback of one browser in another, with and without a sign-in of its own."""
    async with desk(tmp_path) as made:
        attacker, victim = made.browser(), made.browser()
        callback = made.provider.authorize(await attacker.begin())
        assert await problem_of(victim, callback) == "state"
        await victim.begin()
        assert await problem_of(victim, callback) == "state"
        assert "hostler-session" not in victim.cookies
        assert "/token" not in made.provider.paths()


async def test_a_callback_is_good_once_even_if_the_provider_takes_codes_twice(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser = made.browser()
        made.provider.accepts_used_codes = True
        callback = made.provider.authorize(await browser.begin())
        kept = dict(browser.cookies)
        assert (await browser.get(callback)).headers["location"] == "/docs"
        again = Browser(made.served.url, dict(kept))
        assert await problem_of(again, callback) == "state"
        assert "hostler-session" not in again.cookies
        made.provider.accepts_used_codes = False
        assert await problem_of(Browser(made.served.url, dict(kept)), callback) == "provider"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"state": "another"}, "state"),
        ({"state": None}, "state"),
        ({"iss": "https://evil.example"}, "state"),
        ({"iss": None}, "state"),
        ({"code": None}, "provider"),
        ({"code": "guessed"}, "provider"),
        ({"code": None, "error": "access_denied"}, "cancelled"),
        ({"code": None, "error": "<script>alert(1)</script>"}, "provider"),
    ],
)
async def test_an_answer_that_is_not_as_it_should_be(tmp_path: Path, changes: Any, problem: str) -> None:
    async with desk(tmp_path) as made:
        browser = made.browser()
        assert await problem_of(browser, made.provider.authorize(await browser.begin(), **changes)) == problem
        assert "hostler-session" not in browser.cookies


async def test_two_providers_are_not_mixed_up(tmp_path: Path) -> None:
    """What one provider answers is not taken to the other one, whose person it would then be."""
    async with desk(tmp_path) as made, FakeProvider() as evil:
        both = [made.entry, entry_for(evil, made.served.url, name="evil")]
        await made.served.host.apply(ConfigFile(sign_in=both), actor="test")
        browser = made.browser()
        honest = made.provider.authorize(await browser.begin(provider="corp"))
        mixed = honest.replace(f"iss=http%3A%2F%2F127.0.0.1%3A{made.provider.port}", f"iss={evil.issuer}")
        assert await problem_of(browser, mixed) == "state"
        assert evil.paths() == []
        assert (await made.browser().get("/v1/auth/sign-in")).status_code == 404
        unknown = await made.browser().get("/v1/auth/sign-in?provider=none")
        assert unknown.json()["detail"] == "there is no such provider; configured are: corp, evil"


@pytest.mark.parametrize(
    "next_path",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/\tevil",
        "javascript:alert(1)",
        "/ok\r\nset-cookie: a=b",
        "\\\\evil.example",
        "evil",
        "/%0d%0a\u2028",
        "/" + "x" * 2_000,
    ],
)
async def test_a_sign_in_leads_to_this_host_alone(tmp_path: Path, next_path: str) -> None:
    async with desk(tmp_path) as made:
        answered = await made.browser().sign_in(made.provider, next=next_path)
        assert answered.headers["location"] == "/docs"
        assert answered.headers.get_list("location") == ["/docs"]


@pytest.mark.parametrize("damage", ["cut", "signature", "other", "twice", "old", "nonsense"])
async def test_the_cookie_of_a_sign_in_cannot_be_made_or_changed(tmp_path: Path, damage: str) -> None:
    async with desk(tmp_path) as made:
        browser = made.browser()
        callback = made.provider.authorize(await browser.begin())
        value = browser.cookies["hostler-sign-in"]
        body, _, signature = value.partition(".")
        if damage == "cut":
            browser.cookies["hostler-sign-in"] = value[:-4]
        elif damage == "signature":
            browser.cookies["hostler-sign-in"] = f"{body}.{'A' * len(signature)}"
        elif damage == "other":
            browser.cookies["hostler-sign-in"] = f"{body[:-4]}AAAA.{signature}"
        elif damage == "nonsense":
            browser.cookies["hostler-sign-in"] = "\u00e9"
        elif damage == "old":
            made.served.server.app.state.sign_ins.now = lambda: time.time() + 3_600
        if damage == "twice":
            answered = await browser.get(callback, headers={"cookie": "x=1"})
            browser.cookies = {"hostler-sign-in": f"{value}; hostler-sign-in={value}"}
            answered = await browser.get(callback)
            assert answered.headers["location"] == "/sign-in?problem=state"
        elif damage == "nonsense":
            browser.cookies.pop("hostler-sign-in")
            answered = await browser.get(callback, headers={"cookie": b"hostler-sign-in=\xff\xfe"})
            assert answered.headers["location"] == "/sign-in?problem=state"
        else:
            assert await problem_of(browser, callback) == "state"


async def test_the_page_repeats_nothing_of_a_request(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        for problem in ("<script>alert(1)</script>", "cancelled", "&lt;"):
            page = await made.browser().get("/sign-in", params={"problem": problem, "next": "/<b>'\""})
            assert "<script" not in page.text
            assert "<b>" not in page.text
        assert "cancelled" in (await made.browser().get("/sign-in?problem=cancelled")).text


async def test_one_address_begins_only_so_many_sign_ins(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        statuses = [
            (await made.browser().get("/v1/auth/sign-in")).status_code for _ in range(int(SIGN_IN_BURST) + 5)
        ]
        assert statuses.count(429) >= 4
        assert set(statuses) == {303, 429}


# -- who is a member ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("person", "role"),
    [
        ({"groups": ["desk"]}, "approver"),
        ({"groups": ["other"], "email": "olga@EXAMPLE.com"}, "owner"),
        ({"groups": []}, "reader"),
        ({"groups": "desk"}, "reader"),
        ({"groups": [{"a": 1}, None, "desk"]}, "approver"),
        ({"groups": [], "email_verified": False}, None),
        ({"groups": [], "email": "ada@example.com.evil.org"}, None),
        ({"groups": [], "email": "ada@evil.org@example.com"}, None),
        ({"groups": [], "email": "ad\u0430@example.com"}, None),
        ({"groups": [], "email": 5}, None),
        ({"groups": ["DESK"], "email_verified": "yes"}, None),
    ],
)
async def test_claims_give_a_role_if_they_are_verified(tmp_path: Path, person: Any, role: str | None) -> None:
    async with desk(tmp_path) as made:
        made.provider.person |= person
        browser = made.browser()
        answered = await browser.sign_in(made.provider)
        if role is None:
            assert answered.headers["location"] == "/sign-in?problem=not_member"
            assert "hostler-session" not in browser.cookies
            assert len(await made.facts("sign_in.refused")) == 1
        else:
            assert (await browser.get("/v1/auth/session")).json()["role"] == role


async def test_a_role_follows_the_claims_and_ends_with_them(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser = await made.signed_in(groups=["desk"])
        before = (await browser.get("/v1/auth/session")).json()
        other = await made.signed_in(groups=["other desk"])
        assert (await other.get("/v1/auth/session")).json()["role"] == "reader"
        assert (await browser.get("/v1/auth/session")).json()["role"] == "reader"
        assert (await browser.get("/v1/auth/session")).json()["member_id"] == before["member_id"]
        made.provider.person |= {"groups": [], "email": "ada@elsewhere.org"}
        assert (await made.browser().sign_in(made.provider)).headers["location"].endswith("not_member")
        assert (await browser.get("/v1/auth/session")).status_code == 401
        assert (await other.get("/v1/auth/session")).status_code == 401
        assert {one["body"]["cause"] for one in await made.facts("member.removed")} == {
            "no rule of sign_in gives a role any more"
        }


async def test_a_person_goes_from_one_workspace_to_another(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser = await made.signed_in(groups=["desk", "other desk"])
        me = (await browser.get("/v1/auth/session")).json()
        assert [(one["workspace_id"], one["role"]) for one in me["workspaces"]] == [
            ("default", "approver"),
            ("other", "operator"),
        ]
        before = browser.cookies["hostler-session"]
        moved = await browser.request("POST", "/v1/auth/workspace", json={"workspace_id": "other"})
        assert (moved.json()["workspace_id"], moved.json()["role"]) == ("other", "operator")
        old = Browser(made.served.url, {"hostler-session": before})
        assert (await old.get("/v1/auth/session")).status_code == 401
        browser.csrf = moved.json()["csrf_token"]
        assert (await browser.get("/v1/runs")).json()["items"] == []
        nowhere = await browser.request("POST", "/v1/auth/workspace", json={"workspace_id": "third"})
        assert nowhere.status_code == 404


async def test_going_to_a_workspace_makes_no_session_longer(tmp_path: Path) -> None:
    """Otherwise a cookie that was taken is good for ever: its thief enters the workspace again and again."""
    async with desk(tmp_path) as made:
        browser = await made.signed_in(groups=["desk", "other desk"])
        first = (await browser.get("/v1/auth/session")).json()["expires_at"]
        for workspace in ("other", "default", "default"):
            moved = await browser.request("POST", "/v1/auth/workspace", json={"workspace_id": workspace})
            browser.csrf = moved.json()["csrf_token"]
            assert moved.json()["expires_at"] <= first
            assert moved.json()["expires_at"] == pytest.approx(first, abs=1)


async def test_an_entry_that_is_removed_ends_its_sessions(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser = await made.signed_in()
        removed = await made.served.client.delete("/v1/config/sign_in/corp")
        assert removed.status_code == 200
        assert (await browser.get("/v1/auth/session")).status_code == 401
        page = await made.browser().get("/sign-in")
        assert "No identity provider is configured" in page.text


async def test_a_doctor_asks_the_issuer(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        assert (await made.served.client.get("/v1/problems")).json()["items"] == []
        made.provider.answers["/.well-known/openid-configuration"] = (503, b"")
        await made.configure(clock_tolerance=5)
        (problem,) = (await made.served.client.get("/v1/problems")).json()["items"]
        assert problem["kind"] == "sign_in"
        assert "status 503" in problem["problem"]
        assert json.dumps(problem).count(SECRET) == 0
