"""The documentation of the API: the OpenAPI document, and its HTML page."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec

from hostler.http import docs_page


class ApiDocs:
    """The documentation, generated at its first request, so that a start does not wait for it.

    `generate` returns the OpenAPI document.
    """

    def __init__(self, generate: Callable[[], dict[str, Any]]) -> None:
        self._generate = generate

    @cached_property
    def _document(self) -> dict[str, Any]:
        return self._generate()

    @cached_property
    def json(self) -> bytes:
        """The OpenAPI document as JSON."""
        return msgspec.json.encode(self._document)

    @cached_property
    def html(self) -> bytes:
        """The documentation page."""
        return docs_page.render(self._document).encode()
