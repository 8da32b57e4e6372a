"""The header by which a webhook of n8n knows the caller."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from dataclasses import dataclass, field

import msgspec

from hostler_sdk.services import Form, ServiceFailure

TOKEN_SECONDS = 300
"""Lifetime of a token: it is checked when the request arrives."""
_DIGESTS = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})


@dataclass(frozen=True, slots=True)
class Authentication:
    """Headers of the request, the secrets in them, and the setting that is wrong if they are refused."""

    headers: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    setting: str = "auth-type"


def read_authentication(form: Form) -> Authentication:
    """Read the settings. Raises ServiceFailure with the one that is missing or wrong."""
    match form.choice("auth-type", ("none", "basic", "jwt", "header"), "none"):
        case "basic":
            user = form.required("basic-username", "set the user of the webhook's basic auth")
            password = form.required("basic-password", "set it as env:NAME or file:PATH")
            if ":" in user:
                raise ServiceFailure(
                    "config_invalid", "config `basic-username` has a colon, which none can have"
                )
            sent = base64.b64encode(f"{user}:{password}".encode()).decode()
            return Authentication({"authorization": f"Basic {sent}"}, (password, sent), "basic-password")
        case "jwt":
            secret = form.required("jwt-secret", "set it as env:NAME or file:PATH")
            algorithm = form.choice("jwt-algorithm", tuple(_DIGESTS), "HS256")
            token = signed_token(secret, algorithm, int(time.time()))
            return Authentication({"authorization": f"Bearer {token}"}, (secret, token), "jwt-secret")
        case "header":
            name = form.required("header-name", "set the name that the webhook checks, like X-Key")
            value = form.header("header-value", "set it as env:NAME or file:PATH")
            if not _HEADER_NAME.fullmatch(name) or name.lower() in _FRAMING:
                raise ServiceFailure(
                    "config_invalid",
                    f"config `header-name` is {name!r:.60}, which cannot be the name of a key",
                )
            return Authentication({name: value}, (value,), "header-value")
        case _:
            return Authentication()


def signed_token(secret: str, algorithm: str, now: int) -> str:
    """Return a JSON Web Token (RFC 7519) that says nothing but its times."""
    head = _encoded({"alg": algorithm, "typ": "JWT"})
    claims = _encoded({"iat": now, "exp": now + TOKEN_SECONDS})
    digest = hmac.new(secret.encode(), f"{head}.{claims}".encode(), _DIGESTS[algorithm]).digest()
    return f"{head}.{claims}.{_url_safe(digest)}"


def _encoded(value: dict[str, object]) -> str:
    return _url_safe(msgspec.json.encode(value))


def _url_safe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
