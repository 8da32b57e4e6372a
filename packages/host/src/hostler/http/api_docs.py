"""The documentation of the API: the OpenAPI document, and its HTML page."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from hostler.http import docs_page, openapi
from hostler.http.endpoint import Endpoint


class ApiDocs:
    """The documentation, generated at its first request, so that a start does not wait for it."""

    def __init__(self, endpoints: list[Endpoint], version: str) -> None:
        self._endpoints, self._version = endpoints, version

    @cached_property
    def _document(self) -> dict[str, Any]:
        return openapi.document(self._endpoints, self._version)

    @cached_property
    def json(self) -> bytes:
        """The OpenAPI document as JSON."""
        return msgspec.json.encode(self._document)

    @cached_property
    def html(self) -> bytes:
        """The documentation page."""
        return docs_page.render(self._document).encode()
