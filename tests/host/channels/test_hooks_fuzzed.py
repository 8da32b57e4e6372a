"""Requests of any content to hooks: each is taken or refused in words, and never makes the host fail."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.events import Caller
from hostler.domain.filters import Evaluator
from hostler.domain.hook_answers import asked_challenge, posted_challenge
from hostler.domain.hook_mapping import mapped, said_by
from hostler.domain.hook_signatures import FORM_TYPE, HookRequest, HookSecretError, verify
from hostler.domain.hooks import HmacScheme, Hook, HookMapping, Verifier
from hostler.domain.ingest import event_of
from hostler.host.config import ConfigFile
from hostler_protocol.errors import HostlerError
from support.examples import examples
from support.hooked import SECRET, STANDARD_SECRET, Sender
from support.http_host import serving

pytestmark = [pytest.mark.gate("fuzzed-http"), pytest.mark.timeout(900)]

VERIFIERS: tuple[Verifier, ...] = get_args(Verifier)
GREEDY = HookMapping(
    event_type="body.type",
    id="body.id",
    source_event_type="headers['x-type']",
    conversation_id="body.list[0]",
    thread_id="string(body.n)",
    actor_id="body.a.b.c",
    actor_name="query.name",
    text="body.text + string(body.n)",
    data="{'all': body, 'list': body.list.map(x, x.y)}",
)
TYPES = ["application/json", "application/x+json; charset=utf-8", FORM_TYPE, "text/plain", "", "text/json"]
NASTY: list[bytes] = [
    b"",
    b"null",
    b"[]",
    b"0",
    b'"text"',
    b"{",
    b"\xff\xfe",
    b"\x00",
    b'{"id": "\\u0000", "text": "\\u0000"}',
    b'{"id": "\\ud800", "text": "\\udfff"}',
    b'{"id": 1e400, "n": 123456789012345678901234567890}',
    b'{"id": NaN}',
    b'{"a": ' * 2000 + b"1" + b"}" * 2000,
    b"[" * 100_000,
    b'{"text": "' + b"a" * 300_000 + b'"}',
    b'{"text": "a", "n": -9223372036854775809}',
    b'{"id": "x", "id": "y"}',
    b'{"type": "message.received"}',
    b'{"type": "url_verification", "challenge": 5}',
    b'{"type": "url_verification"}',
    b'{"event": [], "type": {}, "trigger_id": []}',
    b"a=b&a=c&=&%",
    b"payload=%7B",
    b"&".join(b"f%d=1" % number for number in range(2000)),
    b'{"' + b"k" * 10_000 + b'": 1}',
    "{'ü': 'ß'}".encode("utf-16"),
]


def hook_of(kind: Verifier, mapping: HookMapping = GREEDY) -> Hook:
    return Hook(
        name=f"h-{kind}",
        verify=kind,
        secrets=[]
        if kind == "none"
        else ["env:STANDARD_SECRET" if kind == "standard" else "env:HOOK_SECRET"],
        username="u" if kind == "basic" else None,
        hmac=HmacScheme(header="x-mine") if kind == "hmac" else None,
        map=mapping,
        requests_per_second=10_000,
    )


async def test_what_is_signed_may_say_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("STANDARD_SECRET", STANDARD_SECRET)
    hooks = [hook_of(kind) for kind in VERIFIERS]
    rng = random.Random(43)
    statuses: dict[int, int] = {}
    async with asyncio.timeout(800), serving(tmp_path / "data") as served, served.as_key(None) as client:
        await served.host.apply(ConfigFile(hooks=hooks), actor="test")
        for hook in hooks:
            sender = Sender(client, hook)
            for body in NASTY:
                kind = rng.choice(TYPES)
                query = rng.choice(["", "name=%ff", "name=a&name=b", "%", "a" * 100])
                try:
                    request = sender.request(body, {"content-type": kind, "x-type": "t"}, query=query)
                except HostlerError:
                    continue  # what Twilio cannot sign
                answer = await sender.send(request)
                assert answer.status_code < 500, (hook.verify, body[:80], kind, answer.text)
                statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        assert statuses[202] > 50, statuses
        assert statuses[400] > 20, statuses
        assert (await served.client.get("/readyz")).status_code == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "type", "text", "n", "list", "a", "event", "challenge"]) | st.text(), inner
        )
    ),
    max_leaves=12,
)
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            *("content-type", "x-github-delivery", "x-github-event", "webhook-id", "webhook-timestamp"),
            *("webhook-signature", "stripe-signature", "x-slack-signature", "x-slack-request-timestamp"),
            *("x-twilio-signature", "x-hub-signature-256", "authorization", "x-mine", "x-type"),
        ]
    ),
    st.text(max_size=60)
    | st.sampled_from([*TYPES, "t=1,v1=a", "Basic", "Bearer ", "v1,", "0", "sha256=", "Basic \udcff"]),
    max_size=6,
)


@settings(max_examples=examples(200, 20_000))
@given(
    st.sampled_from(VERIFIERS),
    HEADERS,
    st.text(max_size=30),
    st.binary(max_size=200) | JSON.map(msgspec.json.encode) | st.sampled_from(NASTY[:12]),
)
def test_each_step_refuses_in_words(kind: Verifier, headers: dict[str, str], query: str, body: bytes) -> None:
    """Verifying, reading, mapping and checking raise what a sender can be told, and nothing else."""
    hook, evaluator = hook_of(kind), Evaluator()
    request = HookRequest(f"https://h.example/{query}", headers, query, body)
    secret = STANDARD_SECRET if kind == "standard" else SECRET
    with contextlib.suppress(HostlerError, HookSecretError):
        verify(hook, request, [secret], 0.0)
    with contextlib.suppress(HostlerError):
        asked_challenge(query, "token")
    with contextlib.suppress(HostlerError):
        said = said_by(hook, request)
        posted_challenge(hook, said)
        values: dict[str, Any] = {
            field: evaluator.value(text, said.names) for field, text in hook.map.expressions().items()
        }
        found = mapped(hook, said, values, "default")
        event, _ = event_of(found.envelope, Caller("default", "hook:h", "k"), 0)
        assert event.event_id.startswith("hook-")
        again = mapped(hook, said_by(hook, request), values, "default")
        assert again.envelope.event_id == event.event_id
