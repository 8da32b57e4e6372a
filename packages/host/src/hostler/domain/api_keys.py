"""What an API key looks like."""

from __future__ import annotations

import base64
import os

PREFIX = "hostler_"
"""So that a key is recognised by people and secret scanners."""
TOKEN_BYTES = 32
"""256 bits: nobody guesses it, so that its digest needs no salt."""


def new_token() -> str:
    """A key that nobody has."""
    return PREFIX + base64.urlsafe_b64encode(os.urandom(TOKEN_BYTES)).rstrip(b"=").decode()
