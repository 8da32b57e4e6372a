"""Redaction: known secrets in all their forms, and shapes of tokens; nothing else of a text changes."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.redaction import MARK, MIN_SECRET_CHARS, KnownSecrets, without_tokens

pytestmark = pytest.mark.gate("redaction")

SECRET = 'h\u00fcnter2 "quoted" /and+more?\n'
FORMS = {
    "plain": SECRET,
    "json": json.dumps(SECRET)[1:-1],
    "json in unicode": json.dumps(SECRET, ensure_ascii=False)[1:-1],
    "repr": repr(SECRET)[1:-1],
    "url": quote(SECRET, safe=""),
    "path": quote(SECRET),
    "form": urlencode({"x": SECRET})[2:],
    "hex": SECRET.encode().hex(),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 for urls": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "basic": base64.b64encode(b"user:" + SECRET.encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_each_form(form: str) -> None:
    shown = KnownSecrets([SECRET]).replaced(f"before {FORMS[form]} after")
    assert MARK in shown
    assert FORMS[form] not in shown
    if "bas" not in form:
        assert shown == f"before {MARK} after"


@settings(deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=60),
    st.binary(max_size=7),
    st.binary(max_size=7),
)
def test_no_place_in_a_longer_text_hides_it_in_base64(secret: str, before: bytes, after: bytes) -> None:
    whole = base64.b64encode(before + secret.encode() + after).decode()
    shown = KnownSecrets([secret]).replaced(whole)
    assert MARK in shown


@settings(deadline=None)
@given(
    st.lists(st.text("abc", min_size=MIN_SECRET_CHARS, max_size=12), max_size=6), st.text("abc ", max_size=80)
)
def test_no_known_secret_is_left(secrets: list[str], text: str) -> None:
    shown = KnownSecrets(secrets).replaced(text)
    for secret in secrets:
        assert secret not in shown.split(MARK) or secret not in text
    if not any(secret in text for secret in secrets):
        assert shown == text


def test_of_secrets_that_begin_alike_the_longer_one_goes() -> None:
    known = KnownSecrets(["secret", "secret-of-more", "tiny"])
    assert known.replaced("a secret-of-more, a secret, and tiny") == f"a {MARK}, a {MARK}, and tiny"


@pytest.mark.parametrize(
    "token",
    [
        "hostler_" + "a1B2_-" * 7 + "x",
        "hostler_run_" + "a1B2_-" * 7 + "x",
        "sk-proj-" + "aB3" * 12,
        "sk-ant-api03-" + "aB3" * 12,
        "ghp_" + "a" * 36,
        "github_pat_" + "a1_" * 20,
        "glpat-" + "a1" * 10,
        "xoxb-123456789012-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "b" * 35,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_has_the_shape_of_a_token_is_not_shown(token: str) -> None:
    assert without_tokens(f"said {token}, and more") == f"said {MARK}, and more"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pass@host/x", f"https://{MARK}@host/x"),
        ("Authorization: Bearer abcdefghijklmnop1234", f"Authorization: Bearer {MARK}"),
        ("run 0198c2f4-7d1c-7b3a-9f00-000000000000 of agent sk-1", None),
        ("https://host:8420/path: it answered 500", None),
        ("sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", None),
        ("config.key: 'env:API_KEY' is not set; bearer tokens are refused", None),
        ("plugin:acme/echo/default at /srv/a-b_c.py", None),
    ],
)
def test_ordinary_text_stays(text: str, shown: str | None) -> None:
    assert without_tokens(text) == (text if shown is None else shown)


HOSTILE = ("ey-", "sk-", "eyJa.", "-----BEGIN ", "://a:", "secret ", "bearer ", "hostler_", "ghp_")


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a piece of work, at its best of three times."""
    found = []
    for _ in range(3):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_time_of_a_hostile_text_grows_with_its_length_alone(piece: str) -> None:
    known = KnownSecrets([f"secret number {number}" for number in range(2_000)])
    text = piece * (8_000 // len(piece))

    def redact(text: str) -> None:
        without_tokens(text)
        known.replaced(text)

    once, eight_times = seconds(lambda: redact(text)), seconds(lambda: redact(text * 8))
    assert eight_times < 24 * once  # 64 times, if each place looked at the rest of the text


@pytest.mark.parametrize("piece", ["secret ", "secret number 1"])
def test_the_time_of_a_text_does_not_grow_with_the_number_of_secrets(piece: str) -> None:
    text = piece * (8_000 // len(piece))
    few = KnownSecrets([f"secret number {number}" for number in range(100, 120)])
    many = KnownSecrets([f"secret number {number}" for number in range(1_000, 5_000)])
    assert seconds(lambda: many.replaced(text)) < 20 * seconds(lambda: few.replaced(text))


def test_of_secrets_that_begin_alike_the_longest_is_replaced() -> None:
    known = KnownSecrets(["secret 1", "secret 12", "secret 12345"])
    text = "secret 1, secret 12, secret 123, secret 12345"
    assert known.replaced(text) == f"{MARK}, {MARK}, {MARK}3, {MARK}"
