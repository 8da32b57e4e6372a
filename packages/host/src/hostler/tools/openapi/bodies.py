"""Bodies of requests: which one of an operation's is sent, and how it is written. Pure.

Files are named by the artifacts that they are: `{"artifact_id": "..."}` stands where the document has bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from hostler.tools.openapi.document import Document, DocumentError
from hostler.tools.openapi.parameters import form_body, is_json
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import digest

BodyKind = Literal["json", "form", "multipart", "text", "file"]
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_BYTES = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_FILE: Mapping[str, Any] = {
    "type": "object",
    "description": "a file: the artifact that it is",
    "properties": {"artifact_id": {"type": "string"}},
    "required": ["artifact_id"],
    "additionalProperties": False,
}
_IN_QUOTES = {ord('"'): "%22", ord("\r"): "%0D", ord("\n"): "%0A"}
"""How browsers write names that would end too early."""


@dataclass(frozen=True, slots=True)
class Body:
    """What an operation takes as its body, as `argument`, and how it is sent.

    `files`: the fields of a multipart body that are files; `kinds`: what the document says of their types.
    """

    argument: str
    kind: BodyKind
    media_type: str
    files: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SentFile:
    """An artifact as it is sent."""

    content: bytes
    name: str | None = None
    mime_type: str | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The body that is sent, of those that an operation takes, and the schema of its argument."""

    kind: BodyKind
    media_type: str
    schema: Any
    files: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)


def choose(document: Document, content: Mapping[str, Any]) -> Chosen:
    """JSON where there is a choice, else a form, else text, else any file. DocumentError."""
    plain: dict[str, str] = {}
    for kind in content:
        plain.setdefault(kind.partition(";")[0].strip().lower(), kind)

    def schema(kind: str) -> Any:
        return document.mapping(content[kind]).get("schema", {})

    if (found := next((kind for kind in content if is_json(kind)), None)) is not None:
        return Chosen("json", found, schema(found))
    if _FORM in plain:
        return Chosen("form", plain[_FORM], {"allOf": [schema(plain[_FORM])], "type": "object"})
    if _MULTIPART in plain:
        return _multipart(document, document.mapping(content[plain[_MULTIPART]]))
    if (found := next((kind for kind in plain if _is_text(kind)), None)) is not None:
        return Chosen("text", plain[found], {"type": "string"})
    kind = next((kind for kind in plain if _MEDIA_TYPE.fullmatch(kind)), _BYTES)
    return Chosen("file", kind if "*" not in kind else _BYTES, dict(_FILE))


def _multipart(document: Document, media: Mapping[str, Any]) -> Chosen:
    """Its fields one by one: those that are bytes, or lists of them, become files."""
    schema = document.mapping(media.get("schema"))
    fields = document.mapping(schema.get("properties"))
    if not fields:
        raise DocumentError("its body is multipart/form-data without fields")
    encoding = document.mapping(media.get("encoding"))
    written: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    files: set[str] = set()
    for name, part in fields.items():
        found = document.resolve(part)
        items = document.resolve(found.get("items")) if isinstance(found, Mapping) else None
        if _is_bytes(found):
            files.add(name)
            written[name] = {**_FILE, **_said(found)}
        elif _is_bytes(items):
            files.add(name)
            bounds = {word: found[word] for word in ("minItems", "maxItems") if word in found}
            written[name] = {"type": "array", "items": dict(_FILE), **bounds, **_said(found)}
        else:
            written[name] = part
        stated = document.mapping(encoding.get(name)).get("contentType")
        if isinstance(stated, str) and _MEDIA_TYPE.fullmatch(stated.strip().lower()):
            kinds[name] = stated.strip().lower()
    return Chosen(
        "multipart",
        _MULTIPART,
        {**schema, "type": "object", "nullable": False, "properties": written},
        frozenset(files),
        kinds,
    )


def _said(schema: Mapping[str, Any]) -> dict[str, Any]:
    text = schema.get("description")
    return (
        {"description": f"{text.strip()} (a file: the artifact that it is)"} if isinstance(text, str) else {}
    )


def _is_bytes(schema: Any) -> bool:
    """As 3.0 says it, and as 3.1 does."""
    if not isinstance(schema, Mapping):
        return False
    if schema.get("type") == "string" and schema.get("format") == "binary":
        return True
    kind = schema.get("contentMediaType")
    return (
        schema.get("type") in (None, "string")
        and isinstance(kind, str)
        and not is_json(kind)
        and ("contentEncoding" not in schema and not _is_text(kind))
    )


def _is_text(kind: str) -> bool:
    return (
        kind.startswith("text/") or kind in ("application/xml", "application/yaml") or kind.endswith("+xml")
    )


# -- writing ------------------------------------------------------------------------------------------


def wanted_files(body: Body | None, arguments: Mapping[str, Any]) -> list[str]:
    """The artifacts that a call sends, each once."""
    if body is None or body.argument not in arguments:
        return []
    value = arguments[body.argument]
    parts = [value] if body.kind == "file" else []
    if body.kind == "multipart":
        parts = [part for name in body.files if name in value for part in _each(value[name])]
    return list(dict.fromkeys(part["artifact_id"] for part in parts))


def written(body: Body, value: Any, files: Mapping[str, SentFile], effect_key: str) -> tuple[str, bytes]:
    """The content type and the bytes. InvalidArgumentError for what can't be sent."""
    match body.kind:
        case "json":
            return body.media_type, msgspec.json.encode(value)
        case "form":
            return body.media_type, form_body(value)
        case "text":
            return body.media_type, _encoded(value)
        case "file":
            sent = files[value["artifact_id"]]
            return (_kind(sent, None) if body.media_type == _BYTES else body.media_type), sent.content
        case "multipart":
            return _form_data(body, value, files, effect_key)


def _form_data(
    body: Body, value: Mapping[str, Any], files: Mapping[str, SentFile], effect_key: str
) -> tuple[str, bytes]:
    parts = list(_parts(body, value, files))
    boundary = f"hostler-{digest(effect_key)[:32]}"
    while any(boundary.encode() in head or boundary.encode() in content for head, content in parts):
        boundary = f"hostler-{digest(boundary)[:32]}"
    lines = b"".join(
        b"--%s\r\n%s\r\n\r\n%s\r\n" % (boundary.encode(), head, content) for head, content in parts
    )
    return f"{_MULTIPART}; boundary={boundary}", lines + b"--%s--\r\n" % boundary.encode()


def _parts(
    body: Body, value: Mapping[str, Any], files: Mapping[str, SentFile]
) -> Iterator[tuple[bytes, bytes]]:
    """Of each part its headers and its content; lists repeat their name."""
    for name, given in value.items():
        shown = _quoted(name)
        for item in _each(given):
            if name in body.files:
                sent = files[item["artifact_id"]]
                named = f'name="{shown}"; filename="{_quoted(sent.name or "file")}"'
                head = f"content-disposition: form-data; {named}"
                yield _encoded(f"{head}\r\ncontent-type: {_kind(sent, body.kinds.get(name))}"), sent.content
                continue
            plain = isinstance(item, str)
            kind = body.kinds.get(name) or ("application/json" if isinstance(item, Mapping | list) else "")
            head = f'content-disposition: form-data; name="{shown}"'
            content = item if plain else "" if item is None else msgspec.json.encode(item).decode()
            yield _encoded(f"{head}\r\ncontent-type: {kind}" if kind else head), _encoded(content)


def _each(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _kind(sent: SentFile, stated: str | None) -> str:
    """What the artifact says of itself, else what the document says, else nothing particular."""
    own = (sent.mime_type or "").partition(";")[0].strip().lower()
    return own if _MEDIA_TYPE.fullmatch(own) else stated or _BYTES


def _quoted(name: str) -> str:
    return "".join(c for c in name.translate(_IN_QUOTES) if c.isprintable())


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("the arguments hold half a character, which can't be sent") from None
