"""Signatures of agent cards: JWS with ES256, by a key of the installation that outlives restarts.

The optional package `cryptography` (the extra `encryption`) makes them; without it cards are not signed.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
from typing import Any

from hostler.http.request import ApiRequest
from hostler.storage.stores import installation

KEY_NAME = "agent cards"
ALGORITHM = "ES256"
JWKS_PATH = "/.well-known/jwks.json"
_FIELD_BYTES = 32
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the group of P-256: private keys are the numbers from 1 to one less."""


def can_sign() -> bool:
    """Whether the package that signs is installed."""
    return importlib.util.find_spec("cryptography") is not None


class CardKey:
    """The key that signs cards. ImportError without `cryptography`."""

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  it is optional

        number = int.from_bytes(seed, "big") % (_ORDER - 1) + 1
        self._private = ec.derive_private_key(number, ec.SECP256R1())
        public = self._private.public_key().public_numbers()
        self._x = _text(public.x.to_bytes(_FIELD_BYTES, "big"))
        self._y = _text(public.y.to_bytes(_FIELD_BYTES, "big"))
        thumbprint = canonical({"crv": "P-256", "kty": "EC", "x": self._x, "y": self._y})
        self.key_id = _text(hashlib.sha256(thumbprint).digest())
        """The thumbprint of the key (RFC 7638)."""

    def public(self) -> dict[str, str]:
        """Return the public key as a member of a JSON Web Key Set."""
        return {
            "kty": "EC",
            "crv": "P-256",
            "x": self._x,
            "y": self._y,
            "kid": self.key_id,
            "use": "sig",
            "alg": ALGORITHM,
        }

    def sign(self, card: dict[str, Any], jwks_url: str) -> dict[str, str]:
        """Return the signature of a card without signatures."""
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415  it is optional
        from cryptography.hazmat.primitives.asymmetric import ec, utils  # noqa: PLC0415

        protected = _text(canonical({"alg": ALGORITHM, "typ": "JOSE", "kid": self.key_id, "jku": jwks_url}))
        content = f"{protected}.{_text(canonical(without_empty(card)))}".encode("ascii")
        r, s = utils.decode_dss_signature(self._private.sign(content, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_FIELD_BYTES, "big") + s.to_bytes(_FIELD_BYTES, "big")
        return {"protected": protected, "signature": _text(signature)}


async def card_key(request: ApiRequest) -> CardKey | None:
    """Return the key of this installation, made with the first use; None if cards cannot be signed."""
    if not can_sign():
        return None
    db = request.state.host.db
    seed = await db.read(lambda tx: installation.find(tx, KEY_NAME))
    if seed is None:
        seed = await db.write(lambda tx: installation.key(tx, KEY_NAME))
    return CardKey(seed)


def without_empty(value: Any) -> Any:
    """Return a value without members that are empty, as the signature of a card is made; None for such."""
    match value:
        case dict():
            found = {name: one for name, given in value.items() if (one := without_empty(given)) is not None}
            return found or None
        case list():
            return [one for given in value if (one := without_empty(given)) is not None] or None
        case "":
            return None
        case _:
            return value


def canonical(value: Any) -> bytes:
    """Return JSON in its canonical form (RFC 8785), of values without fractions and with names in ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
