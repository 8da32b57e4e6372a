"""Which version of A2A a request is of."""

from __future__ import annotations

from urllib.parse import parse_qs

from hostler.http.a2a.dialect import VersionNotSupportedError
from hostler.http.a2a.wire import PROTOCOL_VERSION
from hostler.http.request import ApiRequest

VERSION_HEADER = "a2a-version"
VERSION_FIELD = "A2A-Version"
"""In the query of a client that cannot send a header."""
UNSAID = "0.3"
"""What a request without a version is of, as the protocol has it."""


def check_version(request: ApiRequest) -> None:
    """Raise VersionNotSupportedError for a request of another version than 1.0."""
    said = request.headers.get(VERSION_HEADER, "").strip()
    if not said:
        query = request.scope["query_string"][:1_000].decode("latin-1")
        said = (parse_qs(query).get(VERSION_FIELD) or [""])[0].strip()
    if said.split(".")[:2] != PROTOCOL_VERSION.split("."):
        raise VersionNotSupportedError(said or UNSAID)
