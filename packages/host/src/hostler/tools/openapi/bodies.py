"""Request bodies: choose one of an operation's media types, and encode its value. Pure.

Where the document has bytes, arguments name an artifact: `{"artifact_id": "..."}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from hostler.domain.record import Record
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
"""Escapes that browsers use in quoted names."""


class Body(Record):
    """The body of an operation: its argument, and how it is sent.

    `files`: the fields of a multipart body that are files; `kinds`: media types of fields, by the document.
    """

    argument: str
    kind: BodyKind
    media_type: str
    files: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = msgspec.field(default_factory=dict)


class SentFile(Record):
    """An artifact to be sent."""

    content: bytes
    name: str | None = None
    mime_type: str | None = None


def choose_body(document: Document, content: Mapping[str, Any], argument: str) -> tuple[Body, Any]:
    """Choose the body to send, and return it with its argument's schema. DocumentError.

    JSON is preferred, then a form, then text, then any file.
    """
    plain: dict[str, str] = {}
    for kind in content:
        plain.setdefault(kind.partition(";")[0].strip().lower(), kind)

    def schema(kind: str) -> Any:
        return document.mapping(content[kind]).get("schema", {})

    if (found := next((kind for kind in content if is_json(kind)), None)) is not None:
        return Body(argument, "json", found), schema(found)
    if _FORM in plain:
        form = {"allOf": [schema(plain[_FORM])], "type": "object"}
        return Body(argument, "form", plain[_FORM]), form
    if _MULTIPART in plain:
        return _multipart(document, document.mapping(content[plain[_MULTIPART]]), argument)
    if (found := next((kind for kind in plain if _is_text(kind)), None)) is not None:
        return Body(argument, "text", plain[found]), {"type": "string"}
    kind = next((kind for kind in plain if _MEDIA_TYPE.fullmatch(kind)), _BYTES)
    return Body(argument, "file", kind if "*" not in kind else _BYTES), dict(_FILE)


def _multipart(document: Document, media: Mapping[str, Any], argument: str) -> tuple[Body, Any]:
    """Return a multipart body, whose fields of bytes, or of lists of bytes, become files."""
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
            written[name] = {**_FILE, **_file_description(found)}
        elif _is_bytes(items):
            files.add(name)
            bounds = {word: found[word] for word in ("minItems", "maxItems") if word in found}
            written[name] = {"type": "array", "items": dict(_FILE), **bounds, **_file_description(found)}
        else:
            written[name] = part
        stated = document.mapping(encoding.get(name)).get("contentType")
        if isinstance(stated, str) and _MEDIA_TYPE.fullmatch(stated.strip().lower()):
            kinds[name] = stated.strip().lower()
    body = Body(argument, "multipart", _MULTIPART, frozenset(files), kinds)
    return body, {**schema, "type": "object", "nullable": False, "properties": written}


def _file_description(schema: Mapping[str, Any]) -> dict[str, Any]:
    text = schema.get("description")
    return (
        {"description": f"{text.strip()} (a file: the artifact that it is)"} if isinstance(text, str) else {}
    )


def _is_bytes(schema: Any) -> bool:
    """Whether a schema is binary data, as OpenAPI 3.0 or as 3.1 declares it."""
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


# -- encoding -----------------------------------------------------------------------------------------


def wanted_files(body: Body | None, arguments: Mapping[str, Any]) -> list[str]:
    """Return the artifact ids that a call sends, each once."""
    if body is None or body.argument not in arguments:
        return []
    value = arguments[body.argument]
    parts = [value] if body.kind == "file" else []
    if body.kind == "multipart":
        parts = [part for name in body.files if name in value for part in _each(value[name])]
    return list(dict.fromkeys(part["artifact_id"] for part in parts))


def encode_body(body: Body, value: Any, files: Mapping[str, SentFile], effect_key: str) -> tuple[str, bytes]:
    """Return content type and bytes. InvalidArgumentError for values that cannot be sent."""
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
    """Yield headers and content of each part; list items repeat their field's name."""
    for name, items in value.items():
        shown = _quoted(name)
        for item in _each(items):
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


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _kind(sent: SentFile, stated: str | None) -> str:
    """Return the media type: the artifact's, else the document's, else that of any bytes."""
    own = (sent.mime_type or "").partition(";")[0].strip().lower()
    return own if _MEDIA_TYPE.fullmatch(own) else stated or _BYTES


def _quoted(name: str) -> str:
    return "".join(c for c in name.translate(_IN_QUOTES) if c.isprintable())


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("the arguments hold half a character, which can't be sent") from None
