"""What the configuration says of `fetch`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from hostler_protocol._base import Strict
from hostler_protocol.limits import KIB


class FetchEntry(Strict):
    """`fetch`: a tool that reads pages and files from the web.

    `only`: hosts (`example.org`, `*.example.org`) beside which nothing is read; `deny`: those that never are.
    `network`: hosts and networks that are not public, or on other ports than 80 and 443, and may be read all
    the same.
    """

    name: str = "fetch"
    description: str | None = None
    approval: Literal["never", "required"] = "never"
    only: list[str] = []
    deny: list[str] = []
    network: list[str] = []
    seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
    """From the first look-up to the last byte, with all redirects."""
    page_kib: Annotated[int, msgspec.Meta(ge=1, le=8_192)] = 1_024
    """What is read of a text."""
    file_kib: Annotated[int, msgspec.Meta(ge=1, le=262_144)] = 20_480
    """What is read of anything else, which becomes an artifact."""
    redirects: Annotated[int, msgspec.Meta(ge=0, le=20)] = 5

    @property
    def page_bytes(self) -> int:
        """`page_kib` in bytes."""
        return self.page_kib * KIB

    @property
    def file_bytes(self) -> int:
        """`file_kib` in bytes."""
        return self.file_kib * KIB
