"""The page on which people choose how to sign in: plain HTML without scripts and without external files."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from urllib.parse import urlencode

_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 24rem; margin: 15vh auto 0; padding: 1rem; }
a.way { display: block; padding: .6rem; margin: .6rem 0; border: 1px solid var(--line); }
p.told { border-left: .2rem solid #c60; padding-left: .6rem; }
"""
HEADERS = [
    (
        b"content-security-policy",
        (
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "style-src 'sha256-" + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode() + "'"
        ).encode(),
    ),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
TOLD = {
    "cancelled": "The sign-in was cancelled.",
    "state": "This sign-in is not one that this browser has begun, or it took too long. Try again.",
    "provider": "The identity provider did not answer as it should: the log of the host has the reason.",
    "token": "What the identity provider said of you was refused: the log of the host has the reason.",
    "not_member": "You are not a member here: ask an owner of the workspace to invite you.",
    "signed_out": "You are signed out.",
}
"""What the page says, by `problem`. Nothing else of a request is shown."""
NO_WAY = "<p>No identity provider is configured: use a key.</p>"


def render(providers: Iterable[str], problem: str | None, next_path: str) -> str:
    """Render the page. `providers`: the names of the ways to sign in."""
    told = TOLD.get(problem or "")
    notice = f'<p class="told" role="status">{escape(told)}</p>' if told else ""
    ways = [
        f'<a class="way" href="{escape(_way(name, next_path))}">Sign in with {escape(name)}</a>'
        for name in providers
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Sign in</title><style>{_STYLE}</style></head><body><h1>Sign in</h1>"
        f"{notice}{''.join(ways) or NO_WAY}</body></html>"
    )


def _way(name: str, next_path: str) -> str:
    return f"/v1/auth/sign-in?{urlencode({'provider': name, 'next': next_path})}"
