"""Tool results stored as files because they are too long, and the function with which a model reads them."""

from __future__ import annotations

import base64
import codecs
from typing import Any, Final

from hostler_sdk import RunContext
from hostler_sdk.errors import InvalidArgument
from hostler_sdk.types import FunctionSpec

READ_RESULT: Final = "read_result"
LEAST_BYTES = 16
"""Smallest part: four characters of any language, so that reading always makes progress."""
MOST_BYTES = 1024 * 1024
"""Largest part: what the host returns in one call."""
_LONGEST_CHARACTER = 4
"""Bytes of one character in UTF-8."""
_DESCRIPTION = (
    "Reads one part of a tool's result that was too long to show and is kept as an artifact. Gives the text "
    "from `offset` on, and where it goes on. Read only the parts you need."
)
_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        "artifact_id": {"type": "string", "description": "The artifact that the tool message named."},
        "offset": {
            "type": "integer",
            "minimum": 0,
            "description": "Where to begin, in bytes; 0 is the beginning.",
        },
    },
    "required": ["artifact_id"],
}


class StoredResults:
    """The stored results of one run: those of more than `most` characters, read in parts of `most` bytes."""

    def __init__(self, ctx: RunContext, most: int) -> None:
        self._ctx = ctx
        self.most = most
        self._part_bytes = min(max(most, LEAST_BYTES), MOST_BYTES)
        self._ids: list[str] = []

    @property
    def can_be_read(self) -> bool:
        """Whether the run may read artifacts."""
        return self._ctx.context.available_apis.artifact_read

    @property
    def is_offered(self) -> bool:
        """Whether there is a result to read: only then the function is offered to the model."""
        return bool(self._ids) and self.can_be_read

    def keep(self, artifact_id: str) -> None:
        """Add a stored result."""
        self._ids.append(artifact_id)

    async def read(self, parameters: dict[str, Any]) -> str:
        """Return a part of a result, and where it goes on. Raises InvalidArgument for wrong parameters."""
        artifact_id, offset = parameters.get("artifact_id"), parameters.get("offset", 0)
        if artifact_id not in self._ids:
            known = ", ".join(self._ids)
            raise InvalidArgument(
                f"artifact_id {artifact_id!r:.200} is no result of this run; there are: {known}"
            )
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise InvalidArgument(f"offset {offset!r:.80} must be a whole number, 0 or more")
        part = await self._ctx.artifacts.read(str(artifact_id), offset, self._part_bytes)
        size = part.size_bytes
        if not part.length:
            return f"[nothing: the result has {size:,} bytes, and {offset:,} is past its end]"
        text, begin, end = whole_characters(base64.b64decode(part.content_base64), offset)
        more = f"; it goes on at offset {end}" if part.has_more else ", which is its end"
        return f"[bytes {begin} to {end} of {size}{more}]\n{text}"


def function_of(name: str) -> FunctionSpec:
    """Return the function's description for a model."""
    return FunctionSpec(name=name, description=_DESCRIPTION, parameters=dict(_PARAMETERS))


def whole_characters(data: bytes, offset: int) -> tuple[str, int, int]:
    """Decode the whole characters of a part that begins at `offset`. Return (text, begin, end) in bytes."""
    cut = next((n for n, byte in enumerate(data[:_LONGEST_CHARACTER]) if byte & 0xC0 != 0x80), 0)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data[cut:])
    left, _ = decoder.getstate()
    return text, offset + cut, offset + len(data) - len(left)
