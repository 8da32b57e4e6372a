"""Signatures of ID tokens: the keys of a provider, and the claims of a token that one of them signed.

joserfc does the cryptography. What it is given is narrowed before: one algorithm that the operator allows,
stated by the token and fitting the key, and public keys alone: none serves as a shared secret.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from hostler.domain.id_tokens import SignInError

log = logging.getLogger(__name__)
MAX_KEYS = 100
"""Keys of one provider that are read."""
_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
MIN_RSA_BITS = 2048


class KeyChoice(NamedTuple):
    """One key for signatures. `alg`: the only one that it may be used with, None if it says nothing."""

    kid: str | None
    type: str
    alg: str | None
    curve: str | None
    key: Any


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    crit: Any = None


_headers = msgspec.json.Decoder(_Header)


def read_keys(document: Any) -> list[KeyChoice]:
    """Read a JWK set. Keys that are not for signatures, private or of an unknown kind are left out."""
    from joserfc import jwk  # noqa: PLC0415  an extra
    from joserfc.errors import JoseError  # noqa: PLC0415

    listed = document.get("keys") if isinstance(document, dict) else None
    found = []
    for data in listed[:MAX_KEYS] if isinstance(listed, list) else ():
        if not isinstance(data, dict) or data.get("kty") not in _TYPES.values() or "d" in data:
            continue
        if data.get("use", "sig") != "sig":
            continue
        try:
            key = jwk.import_key(data)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            log.warning("a key of an identity provider cannot be read: %s", type(error).__name__)
            continue
        if data["kty"] == "RSA" and key.raw_value.key_size < MIN_RSA_BITS:  # type: ignore[union-attr]
            continue
        found.append(
            KeyChoice(
                _text(data.get("kid")), data["kty"], _text(data.get("alg")), _text(data.get("crv")), key
            )
        )
    return found


def verified_claims(token: str, keys: Sequence[KeyChoice], allowed: Collection[str]) -> dict[str, Any] | None:
    """Return the claims of a token that one of the keys signed; None if none did.

    SignInError: it is no token, or signed in a way that is not allowed.
    """
    from joserfc import jws  # noqa: PLC0415  an extra
    from joserfc.errors import JoseError  # noqa: PLC0415

    header = _header_of(token)
    if header.alg not in allowed or header.crit is not None:
        raise SignInError("token", "the token is signed in a way that is not allowed")
    for choice in keys:
        if not _fits(choice, header):
            continue
        try:
            payload = jws.deserialize_compact(token, choice.key, algorithms=[header.alg]).payload
        except (JoseError, ValueError, TypeError):
            continue
        return _claims_of(payload)
    return None


def _fits(choice: KeyChoice, header: _Header) -> bool:
    if header.kid is not None and choice.kid is not None and header.kid != choice.kid:
        return False
    if choice.alg is not None and choice.alg != header.alg:
        return False
    curve = _CURVES.get(header.alg)
    return choice.type == _TYPES.get(header.alg[:2]) and (curve is None or curve == choice.curve)


def _header_of(token: str) -> _Header:
    import base64  # noqa: PLC0415

    try:
        encoded, _, rest = token.partition(".")
        if rest.count(".") != 1 or not token.isascii():
            raise ValueError("no compact JWS")
        return _headers.decode(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, msgspec.DecodeError):
        raise SignInError("token", "the provider's answer holds no token") from None


def _claims_of(payload: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise SignInError("token", "the token holds no claims") from None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
