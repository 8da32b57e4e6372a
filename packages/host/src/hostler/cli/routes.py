"""Paths of the HTTP API."""

from __future__ import annotations

from urllib.parse import quote


def route(*parts: str) -> str:
    """Return a path of the API, like `route("runs", run_id, "export")`. Parts are quoted."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)
