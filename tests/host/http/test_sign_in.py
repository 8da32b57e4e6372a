"""People sign in with an identity provider that speaks the true wire, honestly and not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from hostler.host.config import ConfigFile
from hostler.http.limits import SIGN_IN_BURST
from support.identity_provider import CLIENT, SECRET, Browser, FakeProvider
from support.sign_in_desk import desk, entry_for

pytestmark = pytest.mark.gate("sign-in")


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)


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
