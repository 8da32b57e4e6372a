"""Signing in: providers that lie, fail, or lead elsewhere by what they say of themselves."""

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
from support.identity_provider import CLIENT, SECRET, FakeProvider
from support.sign_in_desk import desk

pytestmark = pytest.mark.gate("sign-in")


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)


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


async def test_a_doctor_asks_the_issuer(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        assert (await made.served.client.get("/v1/problems")).json()["items"] == []
        made.provider.answers["/.well-known/openid-configuration"] = (503, b"")
        await made.configure(clock_tolerance=5)
        (problem,) = (await made.served.client.get("/v1/problems")).json()["items"]
        assert problem["kind"] == "sign_in"
        assert "status 503" in problem["problem"]
        assert json.dumps(problem).count(SECRET) == 0
