"""Signatures of requests to hooks by the makers' published examples; each wrong, old, or spelled anew."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from hostler.domain.hook_samples import sample_of, signed
from hostler.domain.hook_signatures import HookRefusedError, HookRequest, HookSecretError, verify
from hostler.domain.hooks import HmacScheme, Hook, Verifier, hook_mistakes

URL = "https://mycompany.com/myapp.php"
FORM = "application/x-www-form-urlencoded"


class Example(NamedTuple):
    """What a maker publishes: the secret, what it signs, and the headers of that."""

    verify: Verifier
    secret: str
    headers: dict[str, str]
    body: bytes
    signature: str
    """The header that has it."""
    at: float = 0.0
    query: str = ""
    more: dict[str, Any] = {}


STRIPE_BODY = b"""{
  "id": "evt_123",
  "object": "event",
  "account": "acct_123",
  "api_version": "2017-05-25",
  "created": 1533204620,
  "data": {
    "object": {
      "id": "cus_123",
      "object": "customer",
      "created": 123456789,
      "email": "test@stripe.com",
      "livemode": false,
      "metadata": {}
    }
  },
  "livemode": false,
  "pending_webhooks": 1,
  "request": {
    "id": "req_123",
    "idempotency_key": "idempotency-key-123"
  },
  "type": "customer.created"
}
"""
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
TWILIO_BODY = (
    b"CallSid=CA1234567890ABCDE&Digits=1234&From=%2B14158675309&To=%2B18005551212&Caller=%2B14158675309"
)
EXAMPLES = {
    # https://github.com/standard-webhooks/standard-webhooks: the vector of its libraries' tests
    "standard": Example(
        "standard",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        b'{"test": 2432232314}',
        "webhook-signature",
        1614265330,
    ),
    # https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    "github": Example(
        "github",
        "It's a Secret to Everybody",
        {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
        b"Hello, World!",
        "x-hub-signature-256",
    ),
    # https://github.com/stripe/stripe-dotnet: EventUtilityTest.cs and event_test_signature.json
    "stripe": Example(
        "stripe",
        "webhook_secret",
        {
            "stripe-signature": "t=1533204620,"
            "v1=2220f87ef101a04665f11cdf770523143f875572008577fa0f20882ddb9cc3c7,"
            "v0=63f3a72374a733066c4be69ed7f8e5ac85c22c9f0a6a612ab9a025a9e4ee7eef"
        },
        STRIPE_BODY,
        "stripe-signature",
        1533204620,
    ),
    # https://docs.slack.dev/authentication/verifying-requests-from-slack
    "slack": Example(
        "slack",
        "8f742231b10e8888abcd99yyyzzz85a5",
        {
            "content-type": FORM,
            "x-slack-request-timestamp": "1531420618",
            "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        },
        SLACK_BODY,
        "x-slack-signature",
        1531420618,
    ),
    # https://github.com/twilio/twilio-python: tests/unit/test_request_validator.py
    "twilio": Example(
        "twilio",
        "12345",
        {"content-type": FORM, "x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8="},
        TWILIO_BODY,
        "x-twilio-signature",
        query="foo=1&bar=2",
    ),
    "twilio, a field twice": Example(
        "twilio",
        "12345",
        {"content-type": FORM, "x-twilio-signature": "IK+Dwps556ElfBT0I3Rgjkr1wJU="},
        b"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234",
        "x-twilio-signature",
        query="foo=1&bar=2",
    ),
    "twilio, JSON": Example(
        "twilio",
        "12345",
        {"content-type": "application/json", "x-twilio-signature": "a9nBmqA0ju/hNViExpshrM61xv4="},
        b'{"property": "value", "boolean": true}',
        "x-twilio-signature",
        query="foo=1&bar=2&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620",
    ),
    # https://datatracker.ietf.org/doc/html/rfc4231: test case 2, which is no maker's but everybody's
    "hmac": Example(
        "hmac",
        "Jefe",
        {"x-signature": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        b"what do ya want for nothing?",
        "x-signature",
        more={"hmac": HmacScheme(header="X-Signature")},
    ),
    # the same vector as Shopify sends it; https://shopify.dev/docs/apps/build/webhooks/subscribe/https says
    # how, and has no example
    "shopify": Example(
        "shopify",
        "Jefe",
        {"x-shopify-hmac-sha256": "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="},
        b"what do ya want for nothing?",
        "x-shopify-hmac-sha256",
    ),
    # https://docs.gitlab.com/user/project/integrations/webhooks: the token is sent; a signing token is that
    # of Standard Webhooks
    "gitlab": Example("gitlab", "my-secret", {"x-gitlab-token": "my-secret"}, b"{}", "x-gitlab-token"),
    "gitlab, signed": Example(
        "gitlab",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        b'{"test": 2432232314}',
        "webhook-signature",
        1614265330,
    ),
    # https://datatracker.ietf.org/doc/html/rfc7617#section-2
    "basic": Example(
        "basic",
        "open sesame",
        {"authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
        b"{}",
        "authorization",
        more={"username": "Aladdin"},
    ),
    # https://datatracker.ietf.org/doc/html/rfc6750#section-2.1
    "bearer": Example(
        "bearer", "mF_9.B5f-4.1JqM", {"authorization": "Bearer mF_9.B5f-4.1JqM"}, b"{}", "authorization"
    ),
}
SIGN_THE_BODY = sorted(set(EXAMPLES) - {"gitlab", "basic", "bearer"})
SIGN_THE_TIME = ["standard", "stripe", "slack", "gitlab, signed"]


def hook_of(example: Example, **fields: Any) -> Hook:
    return Hook(name="h", verify=example.verify, secrets=["env:S"], **{**example.more, **fields})


def request_of(example: Example, **changes: Any) -> HookRequest:
    url = f"{URL}?{example.query}" if example.query else URL
    return replace(HookRequest(url, example.headers, example.query, example.body), **changes)


def refusal(example: Example, request: HookRequest, *secrets: str, at: float | None = None) -> str | None:
    """Why a request is refused; None if it is right."""
    now = example.at if at is None else at
    try:
        verify(hook_of(example), request, secrets or [example.secret], now)
    except HookRefusedError as error:
        return error.refusal
    return None


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_makers_own_example_is_right(name: str) -> None:
    assert refusal(EXAMPLES[name], request_of(EXAMPLES[name])) is None


@pytest.mark.parametrize("name", EXAMPLES)
def test_by_another_secret_it_is_wrong(name: str) -> None:
    example = EXAMPLES[name]
    other = "whsec_" + base64.b64encode(b"another").decode() if "whsec_" in example.secret else "another"
    assert refusal(example, request_of(example), other) == "wrong"


@pytest.mark.parametrize("name", EXAMPLES)
def test_without_its_header_it_is_refused(name: str) -> None:
    example = EXAMPLES[name]
    without = {header: value for header, value in example.headers.items() if header != example.signature}
    wanted = "wrong" if name == "gitlab, signed" else "missing"
    assert refusal(example, request_of(example, headers=without)) in ("missing", wanted)
    empty = {**example.headers, example.signature: ""}
    assert refusal(example, request_of(example, headers=empty)) is not None


@pytest.mark.parametrize("name", SIGN_THE_BODY)
def test_another_body_is_wrong(name: str) -> None:
    """Also one that says the same: JSON written anew, a form with other escapes."""
    example = EXAMPLES[name]
    for body in (example.body + b" ", b" " + example.body, example.body[:-1], b""):
        assert refusal(example, request_of(example, body=body)) in ("wrong", "malformed"), body


def test_a_body_that_is_written_anew_is_wrong() -> None:
    example = EXAMPLES["stripe"]
    anew = example.body.replace(b"\n", b"").replace(b"  ", b"")
    assert refusal(example, request_of(example, body=anew)) == "wrong"
    example = EXAMPLES["slack"]
    assert refusal(example, request_of(example, body=SLACK_BODY.replace(b"%2F", b"/"))) == "wrong"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_signature_that_is_spelled_otherwise_is_wrong(name: str) -> None:
    """Capital letters, other padding, other alphabets, text that is not ASCII: one request, one signature."""
    example = EXAMPLES[name]
    given = example.headers[example.signature]
    start = given.rfind(" ") + 1
    anew = [
        given + "=",
        given.rstrip("="),
        given[:start] + given[start:].swapcase(),
        given.replace("+", "-").replace("/", "_"),
        given + "\udcff",
        given + "é",
        given[:-2] + chr(ord(given[-2]) + 1) + given[-1],
    ]
    if example.signature == "stripe-signature":
        anew = [
            given.replace("v1=2220", "v1=2221"),
            given.replace("v1=2220f", "v1=2220F"),
            "t=1533204620,v1=",
        ]
    for signature in anew:
        if signature == given:
            continue
        headers = {**example.headers, example.signature: signature}
        assert refusal(example, request_of(example, headers=headers)) is not None, signature


@pytest.mark.parametrize("name", SIGN_THE_TIME)
def test_the_time_must_be_the_present_either_way(name: str) -> None:
    example = EXAMPLES[name]
    request = request_of(example)
    for seconds in (-300, -299.5, 300):
        assert refusal(example, request, at=example.at + seconds) is None
    for seconds in (-301, 301, 86_400 * 365):
        assert refusal(example, request, at=example.at + seconds) == "old"


@pytest.mark.parametrize("name", SIGN_THE_TIME)
def test_the_time_cannot_be_changed(name: str) -> None:
    example = EXAMPLES[name]
    for time in ("", "now", "-1", "1e9", "１６１４", "9" * 40, str(int(example.at) + 1)):
        changed = {
            header: value.replace(str(int(example.at)), time) for header, value in example.headers.items()
        }
        assert refusal(example, request_of(example, headers=changed)) is not None, time


@pytest.mark.parametrize("name", EXAMPLES)
def test_two_secrets_are_valid_while_the_sender_gets_a_new_one(name: str) -> None:
    example = EXAMPLES[name]
    other = "whsec_" + base64.b64encode(b"another").decode() if "whsec_" in example.secret else "another"
    assert refusal(example, request_of(example), other, example.secret) is None
    assert refusal(example, request_of(example), example.secret, other) is None


def test_gitlab_may_change_from_a_token_to_a_signing_token() -> None:
    token, signing = EXAMPLES["gitlab"], EXAMPLES["gitlab, signed"]
    both = (signing.secret, token.secret)
    assert refusal(signing, request_of(signing), *both) is None
    assert refusal(token, request_of(token), *both) is None
    forged = {**signing.headers, "webhook-signature": "v1,AAAA", "x-gitlab-token": token.secret}
    assert refusal(signing, request_of(signing, headers=forged), *both) == "wrong"


def test_a_sender_with_two_secrets_signs_with_both() -> None:
    for name in ("standard", "stripe"):
        example = EXAMPLES[name]
        separator = " " if name == "standard" else ","
        bad = "v1,AAAA" if name == "standard" else f"v1={'0' * 64}"
        first, *rest = example.headers[example.signature].split(",", 1) if name == "stripe" else [""]
        given = example.headers[example.signature]
        both = f"{bad}{separator}{given}" if name == "standard" else f"{first},{bad},{rest[0]}"
        headers = {**example.headers, example.signature: both}
        assert refusal(example, request_of(example, headers=headers)) is None
        many = f"{separator.join([bad] * 50)}{separator}{given}"
        headers = {**example.headers, example.signature: many}
        assert refusal(example, request_of(example, headers=headers)) is not None


def test_stripe_signs_by_v1_alone_and_names_one_time() -> None:
    example = EXAMPLES["stripe"]
    given = example.headers["stripe-signature"]
    for header in (given.replace("v1=", "v2="), f"t=1,{given}", "t=1533204620", "v1=,t", ",,", "t="):
        headers = {"stripe-signature": header}
        assert refusal(example, request_of(example, headers=headers)) == "malformed", header


def test_twilio_signs_the_address_with_its_port_or_without() -> None:
    """The vectors of twilio-python: Twilio leaves a port out, or puts the usual one in."""
    example = EXAMPLES["twilio"]
    query = f"?{example.query}"
    for url, signature in (
        ("https://mycompany.com:1234/myapp.php", "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
        ("http://mycompany.com:1234/myapp.php", "Zmvh+3yNM1Phv2jhDCwEM3q5ebU="),
        ("https://mycompany.com/myapp.php", "kvajT1Ptam85bY51eRf/AJRuM3w="),
        ("http://mycompany.com/myapp.php", "0ZXoZLH/DfblKGATFgpif+LLRf4="),
    ):
        headers = {**example.headers, "x-twilio-signature": signature}
        assert refusal(example, request_of(example, url=url + query, headers=headers)) is None, url
    elsewhere = request_of(example, url=f"https://other.com/myapp.php{query}")
    assert refusal(example, elsewhere) == "wrong"


@pytest.mark.parametrize("end", ["?", "?a=b", "#", "#part"])
def test_the_address_that_twilio_calls_is_named_without_a_query(end: str) -> None:
    """Each request has a query of its own, which the host adds: with two of them no signature is right."""
    hook = Hook(name="in", verify="twilio", secrets=["env:S"], url="https://a.example/v1/hooks/in")
    assert list(hook_mistakes(hook)) == []
    (mistake,) = hook_mistakes(msgspec.structs.replace(hook, url=f"{hook.url}{end}"))
    assert (mistake.place, "without a query" in mistake.sentence) == ("url", True)


def test_a_body_that_twilio_did_not_sign_is_wrong() -> None:
    """One that is no form is signed by its digest in the query: without that, any body would be right."""
    example = EXAMPLES["twilio"]
    bare = replace(request_of(example), headers={**example.headers, "content-type": "application/json"})
    assert refusal(example, bare) == "wrong"


def test_what_is_in_the_body_does_not_change_what_is_signed() -> None:
    scheme = HmacScheme(header="x-s", timestamp_header="x-t", signed="{timestamp}.{body}")
    hook = Hook(name="h", verify="hmac", secrets=["env:S"], hmac=scheme)
    request = signed(hook, "k", URL, {}, b"{timestamp}{body}", now=1000, message_id="m")
    verify(hook, HookRequest(URL, request.headers, "", request.body), ["k"], 1000)
    with pytest.raises(HookRefusedError):
        verify(hook, HookRequest(URL, request.headers, "", b"1000{body}"), ["k"], 1000)


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha384", "sha512"])
@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_a_sender_without_a_verifier_is_described(algorithm: Any, encoding: Any) -> None:
    scheme = HmacScheme(
        header="X-Mine", algorithm=algorithm, encoding=encoding, prefix="v=", signed="a{body}b"
    )
    hook = Hook(name="h", verify="hmac", secrets=["env:S"], hmac=scheme)
    request = signed(hook, "k", URL, {}, b"body", now=0, message_id="m")
    assert request.headers["x-mine"].startswith("v=")
    verify(hook, HookRequest(URL, request.headers, "", b"body"), ["k"], 0)
    with pytest.raises(HookRefusedError):
        verify(hook, HookRequest(URL, {"x-mine": request.headers["x-mine"][2:]}, "", b"body"), ["k"], 0)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_empty_secret_verifies_nothing(name: str) -> None:
    with pytest.raises(HookSecretError):
        verify(hook_of(EXAMPLES[name]), request_of(EXAMPLES[name]), ["", ""], EXAMPLES[name].at)


@pytest.mark.parametrize("secret", ["whsec_", "whsec_ünï", "whsec_a", "not base64!"])
def test_a_secret_that_is_no_key_is_no_secret(secret: str) -> None:
    example = EXAMPLES["standard"]
    with pytest.raises(HookSecretError, match="base64") as error:
        verify(hook_of(example), request_of(example), [secret], example.at)
    assert secret not in str(error.value) or secret == "whsec_"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_sample_is_signed_as_its_maker_signs(name: str) -> None:
    example = EXAMPLES[name]
    hook = hook_of(example)
    body, headers = sample_of(hook, "m-1")
    given = signed(hook, example.secret, f"{URL}?a=b", headers, body, now=5000, message_id="m-1")
    query = given.url.partition("?")[2]
    verify(hook, HookRequest(given.url, given.headers, query, given.body), [example.secret], 5000)
    published = signed(
        hook,
        example.secret,
        f"{URL}?foo=1&bar=2" if example.query else URL,
        {name: value for name, value in example.headers.items() if name == "content-type"},
        example.body,
        now=example.at,
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
    )
    if example.verify != "stripe":  # whose header also has a signature for tests
        assert published.headers[example.signature] == example.headers[example.signature]
