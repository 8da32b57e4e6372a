"""The form of API keys and front-end tokens."""

from __future__ import annotations

import base64
import os

PREFIX = "hostler_"
"""Lets people and secret scanners recognise a key."""
FRONT_END_PREFIX = PREFIX + "fe_"
"""Of tokens for front ends, which are looked up first where those are. One key in 262,144 begins so."""
TOKEN_BYTES = 32
"""256 bits cannot be guessed, so the stored digest needs no salt."""


def new_token() -> str:
    """Return a new random key."""
    return PREFIX + _random()


def new_front_end_token() -> str:
    """Return a new random token for a front end."""
    return FRONT_END_PREFIX + _random()


def _random() -> str:
    return base64.urlsafe_b64encode(os.urandom(TOKEN_BYTES)).rstrip(b"=").decode()
