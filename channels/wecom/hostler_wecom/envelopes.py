"""WeCom's encrypted envelopes: who made a call of the address, and what it says.

As the makers describe it: a signature with SHA-1 over the sorted token, time, nonce and ciphertext; AES-256
in CBC mode, filled up to blocks of 32 bytes; within it 16 random bytes, a length, the message, and whom it is
for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hostler_sdk.channels import SetupError

MAX_AGE_SECONDS = 300.0
"""An envelope that is older, or from the future, is refused: somebody may have recorded it."""
BLOCK_BYTES = 32
AES_BYTES = 16
RANDOM_BYTES = 16
LENGTH_BYTES = 4
_AES_KEY = re.compile(r"[A-Za-z0-9+/]{43}")
_TIMESTAMP = re.compile(r"[0-9]{1,15}")


class ForgedError(Exception):
    """WeCom did not make this call, or not for this application. The text says how that is known."""


class Envelopes:
    """Opens envelopes that are sealed with the token and the key of an application's address."""

    def __init__(self, token: str, aes_key: str, receiver: str) -> None:
        """`receiver`: the id of the company. Raises SetupError if the token or the key has a wrong form."""
        if not token:
            raise SetupError("`callback-token` is missing: it is on the application's page “API receiving”")
        if not _AES_KEY.fullmatch(aes_key):
            raise SetupError("`callback-aes-key` must be the EncodingAESKey of 43 letters and digits")
        self._token = token
        self._key = base64.b64decode(aes_key + "=")
        self._receiver = receiver.encode()

    def signature(self, timestamp: str, nonce: str, sealed: str) -> str:
        """Return the signature of a ciphertext."""
        parts = sorted([self._token, timestamp, nonce, sealed])
        return hashlib.sha1("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()  # noqa: S324 - theirs

    def open(
        self, signature: str, timestamp: str, nonce: str, sealed: str, *, now: float | None = None
    ) -> bytes:
        """Return the message in an envelope. Raises ForgedError."""
        right = self.signature(timestamp, nonce, sealed)
        if not hmac.compare_digest(right.encode(), signature.encode("utf-8", "surrogatepass")):
            raise ForgedError("the signature is not the right one")
        if not _TIMESTAMP.fullmatch(timestamp):
            raise ForgedError("the time is no number")
        if abs((time.time() if now is None else now) - int(timestamp)) > MAX_AGE_SECONDS:
            raise ForgedError("the time is not within five minutes of now: replayed, or a clock is wrong")
        return self.unseal(sealed)

    def unseal(self, sealed: str) -> bytes:
        """Return the message in a ciphertext whose signature was verified before. Raises ForgedError."""
        try:
            content = base64.b64decode(sealed, validate=True)
        except (binascii.Error, ValueError):
            raise ForgedError("the ciphertext is no base64") from None
        if not content or len(content) % AES_BYTES:
            raise ForgedError("the ciphertext consists of no whole blocks")
        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(self._key[:16])).decryptor()
        plain = decryptor.update(content) + decryptor.finalize()
        filled = plain[-1]
        if not 1 <= filled <= BLOCK_BYTES or plain[-filled:] != bytes([filled]) * filled:
            raise ForgedError("it was encrypted with another key: check `callback-aes-key`")
        rest = plain[RANDOM_BYTES : len(plain) - filled]
        length = int.from_bytes(rest[:LENGTH_BYTES], "big")
        message, receiver = rest[LENGTH_BYTES:][:length], rest[LENGTH_BYTES + length :]
        if len(rest) < LENGTH_BYTES or len(message) != length:
            raise ForgedError("it was encrypted with another key: check `callback-aes-key`")
        if not hmac.compare_digest(receiver, self._receiver):
            raise ForgedError("it is for another company: check `corp-id`")
        return message
