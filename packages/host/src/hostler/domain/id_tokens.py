"""The claims of an ID token, after its signature was checked: by whom, for whom and when it was made. Pure.

OpenID Connect Core 1.0, 3.1.3.7. No refusal repeats a token's own text: logs show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler.domain.sign_in import MAX_SUBJECT_CHARS
from hostler_protocol.errors import UnauthorizedError

MAX_AGE_SECONDS = 600.0
"""How long ago a token may have been made: the sign-in that it is for has just been finished."""


class SignInError(UnauthorizedError):
    """A sign-in is refused. `reason`: one word for a page and for facts."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message, reason=reason)


def check_claims(
    claims: Mapping[str, Any], *, issuer: str, client_id: str, nonce: str, now: float, tolerance: float
) -> None:
    """Check the claims of a signed token. SignInError. `now` in UTC epoch seconds."""
    if claims.get("iss") != issuer:
        raise SignInError("token", "the token is of another issuer")
    _check_audience(claims, client_id)
    if claims.get("nonce") != nonce:
        raise SignInError("token", "the token is for another sign-in (nonce)")
    sub = claims.get("sub")
    if not isinstance(sub, str) or not 0 < len(sub) <= MAX_SUBJECT_CHARS or not sub.isprintable():
        raise SignInError("token", "the token names no subject")
    _check_times(claims, now, tolerance)


def _check_audience(claims: Mapping[str, Any], client_id: str) -> None:
    audience = claims.get("aud")
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or client_id not in named:
        raise SignInError("token", "the token is for another client (aud)")
    party = claims.get("azp")
    if (len(named) > 1 or party is not None) and party != client_id:
        raise SignInError("token", "the token was given to another client (azp)")


def _check_times(claims: Mapping[str, Any], now: float, tolerance: float) -> None:
    expires, made = _time(claims, "exp"), _time(claims, "iat")
    if expires is None or made is None:
        raise SignInError("token", "the token has no times (exp, iat)")
    if expires <= now - tolerance:
        raise SignInError("token", "the token has expired")
    starts = _time(claims, "nbf")
    if made > now + tolerance or (starts is not None and starts > now + tolerance):
        raise SignInError("token", "the token is of the future: do the clocks agree?")
    if made < now - MAX_AGE_SECONDS - tolerance:
        raise SignInError("token", "the token was made long ago")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 2**53 else None  # type: ignore[arg-type]
