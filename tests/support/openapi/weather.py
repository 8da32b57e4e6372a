"""A fake of the National Weather Service: its addresses, its manners and its errors, on a real socket."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from support.web import Asked, Web, page

DOCUMENT = Path(__file__).with_name("weather.yaml")
WHO = "(tea.example, ann@tea.example)"
"""What the service wants to know of whoever asks."""
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(64)
GEO = "application/geo+json"


class Weather:
    """One square of the grid, with its forecast; one picture; alerts as they were asked for."""

    def __init__(self, web: Web) -> None:
        web.pages["*"] = self.serve

    def serve(self, asked: Asked) -> bytes:
        parts = urlsplit(asked.path)
        path, query = unquote(parts.path), dict(parse_qsl(parts.query))
        if asked.headers.get("user-agent") != WHO:
            return problem(403, "Forbidden", "Who are you?")
        if path == "/points/39.7456,-97.0892":
            return feature({"gridId": "TOP", "gridX": 31, "gridY": 80})
        if path == "/points/39.7456,-97.0892/stations":
            return page(status="301 Moved Permanently", headers=["location: /gridpoints/TOP/31,80/stations"])
        if path.startswith("/gridpoints/TOP/31,80/"):
            flags = asked.headers.get("feature-flags")
            return feature({"path": path, "units": query.get("units"), "flags": flags})
        if path in ("/alerts/active", "/stations", "/zones"):
            return feature({"asked": query})
        if re.fullmatch(r"/icons/land/day/\w+", path):
            return page(PICTURE, kind="image/png")
        if re.fullmatch(r"/points/.*", path):
            return problem(404, "Data Unavailable For Requested Point", f"Unable to provide data for {path}")
        return problem(404, "Not Found", f"{path!r} is not a valid resource path")


def feature(properties: dict[str, Any]) -> bytes:
    value = {"type": "Feature", "geometry": None, "properties": properties}
    return page(json.dumps(value), kind=GEO)


def problem(status: int, title: str, detail: str) -> bytes:
    value = {
        "correlationId": "4a2e",
        "title": title,
        "type": f"https://api.weather.gov/problems/{title.replace(' ', '')}",
        "status": status,
        "detail": detail,
        "instance": "https://api.weather.gov/requests/4a2e",
    }
    return page(json.dumps(value), status=f"{status} {title}", kind="application/problem+json")
