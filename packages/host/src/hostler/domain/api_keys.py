"""The form of API keys."""

from __future__ import annotations

import base64
import os

PREFIX = "hostler_"
"""Lets people and secret scanners recognise a key."""
TOKEN_BYTES = 32
"""256 bits cannot be guessed, so the stored digest needs no salt."""


def new_token() -> str:
    """Return a new random key."""
    return PREFIX + base64.urlsafe_b64encode(os.urandom(TOKEN_BYTES)).rstrip(b"=").decode()
