"""`/embeddings`: requests as parameters of host calls, and their answers. Pure."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from hostler_protocol.limits import MAX_EMBED_INPUTS
from hostler_sdk.model_door.limits import MAX_EMBEDDINGS
from hostler_sdk.model_door.problems import invalid, unsupported
from hostler_sdk.model_door.reading import Json, text_in

_KNOWN = frozenset({"model", "input", "dimensions", "encoding_format", "user"})


class EmbeddingRequest(NamedTuple):
    """A request, translated. `batches`: as many inputs as one host call takes."""

    model: str
    batches: list[list[str | list[int]]]
    dimensions: int | None
    as_base64: bool


def read_embeddings(body: Json) -> EmbeddingRequest:
    """Translate a request. DoorError names what is wrong or cannot be passed on."""
    for name in body:
        if name not in _KNOWN:
            raise unsupported(name, "it cannot be passed on to the model")
    form, dimensions = body.get("encoding_format", "float"), body.get("dimensions")
    if form not in ("float", "base64"):
        raise invalid(f"encoding_format is {form!r:.40}; float and base64 are known", "encoding_format")
    if dimensions is not None and (not isinstance(dimensions, int) or isinstance(dimensions, bool)):
        raise invalid("dimensions must be a whole number", "dimensions")
    inputs = _inputs(body.get("input"))
    batches = [inputs[at : at + MAX_EMBED_INPUTS] for at in range(0, len(inputs), MAX_EMBED_INPUTS)]
    return EmbeddingRequest(text_in(body, "model"), batches, dimensions, form == "base64")


def _inputs(value: Any) -> list[str | list[int]]:
    if isinstance(value, str) or _is_tokens(value):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(one, str) or _is_tokens(one) for one in value):
        raise invalid("input must be a text, tokens, or a list of texts or tokens", "input")
    if not 1 <= len(value) <= MAX_EMBEDDINGS:
        raise invalid(f"input has {len(value):,} entries; 1 to {MAX_EMBEDDINGS:,} may be", "input")
    return value


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int and one >= 0 for one in value)


def embedding_list(model: str, vectors: Sequence[list[float]], tokens: int, *, as_base64: bool) -> Json:
    """Return the answer."""
    return {
        "object": "list",
        "model": model,
        "data": [
            {"object": "embedding", "index": index, "embedding": _packed(one) if as_base64 else one}
            for index, one in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _packed(vector: list[float]) -> str:
    try:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    except (OverflowError, struct.error):
        raise invalid("a number of a vector does not fit 32 bits; ask for encoding_format float") from None
