"""Parameters of operations, and the serialization of their values as OpenAPI defines it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args
from urllib.parse import quote

import msgspec

from hostler.domain.record import Record
from hostler.tools.openapi.document import Document, DocumentError
from hostler_protocol.errors import InvalidArgumentError

Location = Literal["path", "query", "header", "cookie"]
LOCATIONS: tuple[Location, ...] = get_args(Location)
_STYLES: dict[str, tuple[str, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""Styles by location; the first is the default."""
_DELIMITERS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}
_RESERVED = ":/?@!$'()*,;"
"""Characters that `allowReserved` does not escape; those that would end the value or query are escaped."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_DOTS = re.compile(r"(?:^|[/\\])\.\.?(?:$|[/\\])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Parameter(Record):
    """One parameter. `as_json`: its value is sent as one JSON text."""

    name: str
    location: Location
    schema: Any
    required: bool = False
    description: str = ""
    style: str = "form"
    explode: bool = True
    allow_reserved: bool = False
    as_json: bool = False

    @classmethod
    def read(cls, document: Document, part: Any) -> Parameter:
        """Read a parameter. DocumentError if it cannot be sent."""
        spec = document.mapping(part)
        name, location = spec.get("name"), spec.get("in")
        if not isinstance(name, str) or not name or location not in LOCATIONS:
            raise DocumentError("it has a parameter without a name or a place")
        if location in ("header", "cookie") and not _TOKEN.fullmatch(name):
            raise DocumentError(f"its {location} {name[:60]!r} has no name that can be sent")
        style = spec.get("style", _STYLES[location][0])
        if style not in _STYLES[location]:
            raise DocumentError(f"its {location} parameter {name[:60]!r} has a style of another place")
        schema, as_json = spec.get("schema", {}), False
        if isinstance(content := spec.get("content"), Mapping) and content:
            kind, media = next(iter(content.items()))
            if not is_json(kind):
                raise DocumentError(f"its parameter {name[:60]!r} is written as {kind[:60]!r}")
            schema, as_json = document.mapping(media).get("schema", {}), True
        return cls(
            name=name,
            location=location,
            schema=schema,
            required=spec.get("required") is True or location == "path",
            description=text if isinstance(text := spec.get("description"), str) else "",
            style=style,
            explode=bool(spec.get("explode", style == "form")),
            allow_reserved=spec.get("allowReserved") is True,
            as_json=as_json,
        )


def is_json(kind: str) -> bool:
    """Whether a media type is JSON."""
    plain = kind.partition(";")[0].strip().lower()
    return plain == "application/json" or plain.endswith("+json")


def in_path(parameter: Parameter, value: Any) -> str:
    """Return the text for `{name}` in a path. InvalidArgumentError if it would change the path."""
    for text in _texts(value):
        if _DOTS.search(text) or _CONTROL.search(text):
            raise InvalidArgumentError(f"{parameter.name}: {text[:60]!r} can't be part of a path")
    written = _path_value(parameter, value)
    if not written:
        raise InvalidArgumentError(f"{parameter.name}: it is empty, which would make another path")
    return written


def _path_value(parameter: Parameter, value: Any) -> str:
    name, explode = escaped(parameter.name), parameter.explode
    if parameter.as_json:
        return escaped(_json(value))
    pairs = _pairs(value)
    match parameter.style:
        case "label":
            items = _joined_pairs(pairs, explode) if pairs is not None else _items(value)
            return "." + ("." if explode else ",").join(items)
        case "matrix":
            if pairs is not None and explode:
                return "".join(f";{key}={item}" for key, item in pairs)
            if isinstance(value, list) and explode:
                return "".join(f";{name}={item}" for item in _items(value))
            items = _joined_pairs(pairs, explode=False) if pairs is not None else _items(value)
            return f";{name}={','.join(items)}"
        case _:
            return ",".join(_joined_pairs(pairs, explode) if pairs is not None else _items(value))


def in_query(parameter: Parameter, value: Any) -> list[str]:
    """Return the escaped `name=value` pairs of a query."""
    name, safe = escaped(parameter.name), _RESERVED if parameter.allow_reserved else ""
    if parameter.as_json:
        return [f"{name}={escaped(_json(value), safe)}"]
    pairs = _pairs(value, safe)
    if pairs is not None:
        if parameter.style == "deepObject":
            return [f"{name}%5B{key}%5D={item}" for key, item in pairs]
        if parameter.explode:
            return [f"{key}={item}" for key, item in pairs]
        items = [part for pair in pairs for part in pair]
    else:
        items = _items(value, safe)
        if isinstance(value, list) and (parameter.explode or parameter.style == "deepObject"):
            return [f"{name}={item}" for item in items]
    return [f"{name}={_DELIMITERS.get(parameter.style, ',').join(items)}"]


def in_header(parameter: Parameter, value: Any) -> str:
    """Return the value of a header. InvalidArgumentError if a header cannot carry it."""
    if parameter.as_json:
        written = _json(value)
    elif isinstance(value, Mapping):
        sign = "=" if parameter.explode else ","
        written = ",".join(f"{key}{sign}{_text(item)}" for key, item in value.items())
    else:
        written = ",".join(_texts(value))
    return header_value(parameter.name, written)


def header_value(name: str, written: str) -> str:
    """Return a checked value of a header. InvalidArgumentError if a header cannot carry it."""
    if not written.isascii() or _CONTROL.search(written):
        raise InvalidArgumentError(f"{name}: a header carries one line of ASCII characters")
    return written.strip()


def in_cookie(parameter: Parameter, value: Any) -> list[str]:
    """Return the escaped `name=value` pairs of a cookie header."""
    name = parameter.name
    if parameter.as_json:
        return [f"{name}={escaped(_json(value))}"]
    pairs = _pairs(value)
    if pairs is not None and parameter.explode:
        return [f"{key}={item}" for key, item in pairs]
    items = [part for pair in pairs for part in pair] if pairs is not None else _items(value)
    if isinstance(value, list) and parameter.explode:
        return [f"{name}={item}" for item in items]
    return [f"{name}={','.join(items)}"]


def form_body(value: Mapping[str, Any]) -> bytes:
    """Encode `application/x-www-form-urlencoded`: lists repeat their name, nested values are JSON."""
    pairs: list[str] = []
    for name, item in value.items():
        field = Parameter(name, "query", {})
        pairs += in_query(field, _json(item) if isinstance(item, Mapping) else item)
    return "&".join(pairs).encode()


def escaped(text: str, safe: str = "") -> str:
    """Percent-encode all but letters, digits, `-._~` and `safe`. InvalidArgumentError."""
    try:
        return quote(text, safe=safe)
    except UnicodeEncodeError:
        raise InvalidArgumentError("the arguments hold half a character, which can't be sent") from None


def _pairs(value: Any, safe: str = "") -> list[tuple[str, str]] | None:
    if not isinstance(value, Mapping):
        return None
    return [(escaped(key), escaped(_text(item), safe)) for key, item in value.items()]


def _joined_pairs(pairs: list[tuple[str, str]], explode: bool) -> list[str]:
    if explode:
        return [f"{key}={item}" for key, item in pairs]
    return [part for pair in pairs for part in pair]


def _items(value: Any, safe: str = "") -> list[str]:
    return [escaped(text, safe) for text in _texts(value)]


def _texts(value: Any) -> list[str]:
    """Return the single values, unescaped."""
    if isinstance(value, Mapping):
        return [*value, *(_text(item) for item in value.values())]
    items: Iterable[Any] = value if isinstance(value, list) else [value]
    return [_text(item) for item in items]


def _text(value: Any) -> str:
    """Return a single value as text; values that OpenAPI does not define (lists in lists) are JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
