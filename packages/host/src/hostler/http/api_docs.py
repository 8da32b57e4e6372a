"""What the server says of itself: the OpenAPI document, and the page that shows it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from hostler.http import docs_page, openapi
from hostler.http.endpoint import Endpoint


class ApiDocs:
    """Both are made when somebody first asks for them: few do, and every start would wait."""

    def __init__(self, endpoints: list[Endpoint], version: str) -> None:
        self._endpoints, self._version = endpoints, version

    @cached_property
    def _document(self) -> dict[str, Any]:
        return openapi.document(self._endpoints, self._version)

    @cached_property
    def json(self) -> bytes:
        """The OpenAPI document."""
        return msgspec.json.encode(self._document)

    @cached_property
    def html(self) -> bytes:
        """The page."""
        return docs_page.render(self._document).encode()
