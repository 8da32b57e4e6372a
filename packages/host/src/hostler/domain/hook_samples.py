"""Sample requests for hooks, signed as their senders sign. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from hostler.domain.hook_signatures import (
    FORM_TYPE,
    GITHUB,
    SHOPIFY,
    SLACK,
    basic_credentials,
    form_fields,
    scheme_signature,
    standard_key,
    standard_signature,
    stripe_signature,
    twilio_signature,
)
from hostler.domain.hooks import HmacScheme, Hook, Verifier
from hostler.domain.record import Record

_JSON = "application/json"
_SCHEMES: Mapping[Verifier, HmacScheme] = {"github": GITHUB, "shopify": SHOPIFY, "slack": SLACK}
_BODIES: Mapping[Verifier, Mapping[str, Any]] = {
    "github": {
        "action": "opened",
        "issue": {"number": 1, "title": "A sample", "body": "Sent by hostler hooks send"},
        "repository": {"full_name": "octocat/hello-world"},
        "sender": {"id": 1, "login": "octocat"},
    },
    "gitlab": {"object_kind": "push", "ref": "refs/heads/main", "project": {"id": 1}},
    "stripe": {"object": "event", "type": "customer.created", "data": {"object": {"id": "cus_sample"}}},
    "slack": {
        "type": "event_callback",
        "team_id": "T000SAMPLE",
        "event": {"type": "message", "channel": "C000SAMPLE", "user": "U000SAMPLE", "text": "A sample"},
    },
    "shopify": {"id": 1, "email": "sample@example.com"},
    "twilio": {"From": "+15005550006", "To": "+15005550001", "Body": "A sample"},
}
_HEADERS: Mapping[Verifier, Mapping[str, str]] = {
    "github": {"x-github-event": "issues"},
    "gitlab": {"x-gitlab-event": "Push Hook"},
    "shopify": {"x-shopify-topic": "customers/create", "x-shopify-shop-domain": "sample.myshopify.com"},
}
_IDS: Mapping[Verifier, str] = {
    "github": "x-github-delivery",
    "gitlab": "idempotency-key",
    "shopify": "x-shopify-webhook-id",
    "standard": "webhook-id",
}
_ID_FIELDS: Mapping[Verifier, str] = {"stripe": "id", "slack": "event_id", "twilio": "MessageSid"}


class SignedRequest(Record):
    """A request as its sender sends it. `url`: with the query."""

    url: str
    headers: Mapping[str, str]
    body: bytes


def sample_of(hook: Hook, message_id: str) -> tuple[bytes, dict[str, str]]:
    """Return the body and headers of a sample, as yet not signed."""
    data = dict(_BODIES.get(hook.verify, {"type": "sample", "data": {"text": "A sample"}}))
    data["sample"] = message_id  # another message has another body: else it would be a replay
    headers = dict(_HEADERS.get(hook.verify, {}))
    if (field := _ID_FIELDS.get(hook.verify)) is not None:
        data = {field: message_id, **data}
    if (header := _IDS.get(hook.verify)) is not None:
        headers[header] = message_id
    if hook.verify == "twilio":
        return urlencode(data).encode(), {**headers, "content-type": FORM_TYPE}
    return msgspec.json.encode(data), {**headers, "content-type": _JSON}


def signed(
    hook: Hook, secret: str, url: str, headers: Mapping[str, str], body: bytes, *, now: float, message_id: str
) -> SignedRequest:
    """Return a request as the sender of a hook signs it. `headers` by lower-case name; `now`: epoch seconds.

    HookSecretError for a secret that cannot be used.
    """
    found, timestamp = dict(headers), str(int(now))
    match hook.verify:
        case "github" | "shopify" | "slack" | "hmac":
            scheme = hook.hmac or _SCHEMES[hook.verify]
            if scheme.timestamp_header is not None:
                found[scheme.timestamp_header.lower()] = timestamp
            found[scheme.header.lower()] = scheme_signature(scheme, secret, timestamp, body)
        case "standard":
            found.setdefault("webhook-id", message_id)
            found["webhook-timestamp"] = timestamp
            key = standard_key(secret)
            found["webhook-signature"] = standard_signature(key, found["webhook-id"], timestamp, body)
        case "gitlab" if secret.startswith("whsec_"):
            key = standard_key(secret)
            found |= {"webhook-id": message_id, "webhook-timestamp": timestamp}
            found["webhook-signature"] = standard_signature(key, message_id, timestamp, body)
        case "gitlab":
            found["x-gitlab-token"] = secret
        case "stripe":
            found["stripe-signature"] = f"t={timestamp},v1={stripe_signature(secret, timestamp, body)}"
        case "twilio":
            url = _twilio(hook, secret, url, found, body)
        case "basic":
            found["authorization"] = f"Basic {basic_credentials(hook.username or '', secret)}"
        case "bearer":
            found["authorization"] = f"Bearer {secret}"
        case "none":
            pass
    return SignedRequest(url, found, body)


def _twilio(hook: Hook, secret: str, url: str, headers: dict[str, str], body: bytes) -> str:
    """Add Twilio's signature; return the URL, which has the digest of a body that is no form."""
    query = url.partition("?")[2]
    is_form = headers.get("content-type", "").partition(";")[0].strip().lower() == FORM_TYPE
    if not is_form:
        query = f"{query}&" if query else ""
        query += f"bodySHA256={hashlib.sha256(body).hexdigest()}"
    base = url.partition("?")[0]
    called = hook.url or base
    form = form_fields(body) if is_form else []
    headers["x-twilio-signature"] = twilio_signature(secret, f"{called}?{query}" if query else called, form)
    return f"{base}?{query}" if query else base
