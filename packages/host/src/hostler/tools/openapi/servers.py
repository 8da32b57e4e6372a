"""Determine the server of an operation. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.egress.errors import EgressRefusedError
from hostler.egress.policy import target_of
from hostler.tools.openapi.document import Document, DocumentError

_VARIABLE = re.compile(r"\{([^{}]*)\}")


def server_of(
    document: Document,
    entry: OpenApiEntry,
    item: Mapping[str, Any],
    spec: Mapping[str, Any],
    found_at: str | None,
) -> str:
    """Return the base address of an operation, without a slash at its end. DocumentError.

    It is the entry's, else the most specific one in the document. Credentials are for the document's own
    server: an operation on another server cannot be used, unless the entry has a base_url.
    """
    if entry.base_url is not None:
        return entry.base_url.rstrip("/")
    main = _first(document, document.root, found_at) or _relative("/", found_at)
    own = _first(document, spec, found_at) or _first(document, item, found_at)
    if own is not None and urlsplit(own)[:2] != urlsplit(main)[:2]:
        raise DocumentError("it is served at another address than the rest; base_url can say where it is")
    return own or main


def _first(document: Document, part: Mapping[str, Any], found_at: str | None) -> str | None:
    servers = part.get("servers")
    if not isinstance(servers, list) or not servers:
        return None
    server = document.mapping(servers[0])
    variables = document.mapping(server.get("variables"))

    def value(match: re.Match[str]) -> str:
        default = document.mapping(variables.get(match[1])).get("default")
        if default is None:
            raise DocumentError("its server's address has variables without defaults; give base_url")
        return str(default)

    return _relative(_VARIABLE.sub(value, str(server.get("url", "/"))), found_at)


def _relative(url: str, found_at: str | None) -> str:
    try:
        whole = url if found_at is None else urljoin(found_at, url)
        target_of(whole)
    except (EgressRefusedError, ValueError):
        raise DocumentError(f"its server {url[:100]!r} is no whole address; give base_url") from None
    parts = urlsplit(whole)
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
