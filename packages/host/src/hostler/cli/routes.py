"""Paths of the HTTP API."""

from __future__ import annotations

from urllib.parse import quote


def route(*parts: str) -> str:
    """The path of a thing: `route("runs", run_id, "export")`. Ids may hold any character."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


__all__ = ["route"]
