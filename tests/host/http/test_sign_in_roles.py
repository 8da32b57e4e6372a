"""Signing in: the roles that claims give, and what becomes of sessions when these or entries change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.identity_provider import SECRET, Browser
from support.sign_in_desk import desk

pytestmark = pytest.mark.gate("sign-in")


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)


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
