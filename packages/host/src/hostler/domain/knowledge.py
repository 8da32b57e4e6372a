"""Knowledge bases: entries of `knowledge_bases`, documents in them, and what a search may ask. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from hostler.domain.config_mistakes import Mistake
from hostler.domain.record import Record
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import canonical_json, digest
from hostler_protocol.limits import MAX_INTEGER, MIB

MAX_BASES = 100
"""Bases of one workspace: people choose among them in a list."""
MAX_DOCUMENTS = 10_000
"""Documents of one base."""
MAX_DOCUMENT_BYTES = 16 * MIB
"""Of one document, as it was sent: sixteen long novels, and some seconds of indexing."""
MAX_PASSAGES = 20_000
"""Passages of one document."""
MAX_NAME_CHARS = 200
MAX_DESCRIPTION_CHARS = 2_000
MAX_DOCUMENT_NAME_CHARS = 255
"""Of a document's name: it fits the index of every database."""
MAX_METADATA_KEYS = 16
MAX_METADATA_CHARS = 200
"""Of one text in the metadata of a document."""
MAX_FILTER_VALUES = 50
"""Values of one key of a filter."""
MAX_QUERY_CHARS = 4_000
"""Of a query: of a longer message of a run the beginning is searched for."""
MAX_TOP_K = 50
"""Passages of one answer: 50 of the longest are 200,000 characters."""
DEFAULT_PASSAGE_CHARS = 1_000
"""About 250 tokens: five of them leave room for the conversation in any model's window."""
DOCUMENT = "document"
"""The key of a filter that names documents."""
_KB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_METADATA_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

DocumentState = Literal["waiting", "indexing", "ready", "failed"]
Value = str | int | float | bool


class KnowledgeBase(Strict):
    """A knowledge base that the host keeps: an entry of `knowledge_bases`.

    `kb_id` is what agents name. `name` and `description` are for people. `passage_chars`: about how long the
    passages are that its documents are cut into; another number has all of them cut again.
    """

    kb_id: str
    name: str = ""
    description: str = ""
    passage_chars: Annotated[int, msgspec.Meta(ge=200, le=4_000)] = DEFAULT_PASSAGE_CHARS


def base_mistakes(base: KnowledgeBase) -> Iterator[Mistake]:
    """Yield the mistakes of an entry."""
    if not _KB_ID.fullmatch(base.kb_id):
        text = f"{base.kb_id!r:.120} is no id: 1 to 100 letters, digits, '_', '-', the first no '_' or '-'"
        yield Mistake("kb_id", text)
    for place, text, most in (
        ("name", base.name, MAX_NAME_CHARS),
        ("description", base.description, MAX_DESCRIPTION_CHARS),
    ):
        if len(text) > most:
            yield Mistake(place, f"has {len(text):,} characters; at most {most:,}")


def check_document_name(name: str) -> None:
    """Raise InvalidArgumentError for a name that a document cannot have."""
    if not 0 < len(name) <= MAX_DOCUMENT_NAME_CHARS:
        raise InvalidArgumentError(
            f"name: has {len(name):,} characters; 1 to {MAX_DOCUMENT_NAME_CHARS} are possible"
        )
    if _CONTROL.search(name) or name in {".", ".."}:
        raise InvalidArgumentError(
            f"name: {name!r:.120} is no name of a document: leave out control characters"
        )


def read_metadata(text: str | None) -> dict[str, Value]:
    """Read the metadata of a document, a JSON object. InvalidArgumentError if it is none."""
    if text is None:
        return {}
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidArgumentError(
            f"metadata: expected a JSON object of texts, numbers, booleans: {error}"
        ) from None
    if len(found) > MAX_METADATA_KEYS:
        raise InvalidArgumentError(f"metadata: has {len(found)} keys; at most {MAX_METADATA_KEYS}")
    for key, value in found.items():
        if not _METADATA_KEY.fullmatch(key):
            raise InvalidArgumentError(
                f"metadata: {key!r:.100} is no key: 1 to 64 letters, digits, '_', '-', '.'"
            )
        if key == DOCUMENT:
            raise InvalidArgumentError("metadata: 'document' is the name of the document: choose another key")
        _check_value(f"metadata: {key}", value)
    return found


def _check_value(place: str, value: object) -> None:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float) and abs(value) <= MAX_INTEGER:
        return
    if isinstance(value, str) and len(value) <= MAX_METADATA_CHARS and not _CONTROL.search(value):
        return
    raise InvalidArgumentError(
        f"{place}: expected a boolean, a number, or a text of at most {MAX_METADATA_CHARS} characters"
    )


class Filters(Record):
    """What passages have to fulfil: for each key one of its values. `tokens`: these as tokens of an index."""

    tokens: tuple[tuple[str, ...], ...] = ()


def read_filters(filters: Mapping[str, Any] | None) -> Filters:
    """Read the filters of a search. InvalidArgumentError for what is none."""
    if len(filters or {}) > MAX_METADATA_KEYS:
        raise InvalidArgumentError(f"filters: has {len(filters or {})} keys; at most {MAX_METADATA_KEYS}")
    tokens: list[tuple[str, ...]] = []
    for key, given in (filters or {}).items():
        values = given if isinstance(given, list) else [given]
        if not 0 < len(values) <= MAX_FILTER_VALUES:
            raise InvalidArgumentError(
                f"filters: {key[:100]}: has {len(values)} values; 1 to {MAX_FILTER_VALUES} are possible"
            )
        for value in values:
            if key == DOCUMENT:
                if not isinstance(value, str):
                    raise InvalidArgumentError("filters: document: expected a name, or a list of names")
            else:
                _check_value(f"filters: {key[:100]}", value)
        tokens.append(tuple(filter_token(key, value) for value in values))
    return Filters(tuple(tokens))


def filter_token(key: str, value: Value) -> str:
    """Return the token of a document's name, or of one entry of its metadata. `1` and `1.0` are the same."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"\ue002{digest([key, canonical_json(value).decode()])[:20]}"


def document_tokens(name: str, metadata: Mapping[str, Value]) -> list[str]:
    """Return the tokens that all passages of a document have."""
    return [filter_token(DOCUMENT, name), *(filter_token(key, value) for key, value in metadata.items())]
