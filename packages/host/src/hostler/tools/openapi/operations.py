"""Read the operations of a document: those that can be tools, and why others cannot. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.domain.record import Record
from hostler.tools.openapi.bodies import Body, choose_body
from hostler.tools.openapi.document import Document, DocumentError
from hostler.tools.openapi.limits import (
    MAX_DESCRIPTION_CHARS,
    MAX_OPERATIONS,
    MAX_PARAMETERS,
    MAX_PART_DESCRIPTION_CHARS,
    MAX_PROBLEMS,
    MAX_TOOLS,
)
from hostler.tools.openapi.parameters import LOCATIONS, Parameter
from hostler.tools.openapi.schemas import SchemaWriter, shortened
from hostler.tools.openapi.security import Scheme, Security
from hostler.tools.openapi.servers import server_of
from hostler.tools.schema import ToolSchema
from hostler.tools.schema_cost import SchemaError
from hostler_protocol.limits import MAX_TOOL_NAME_CHARS

METHODS = ("get", "head", "post", "put", "patch", "delete")
_KEY_HEADERS = frozenset({"idempotency-key", "x-idempotency-key"})
_OWN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that arguments must not set: those of the HTTP client, and those with credentials."""
_PROBLEM = object()
"""Key, which no document can have, for the reason why there is no operation."""
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_TEMPLATE = re.compile(r"\{([^{}]*)\}")


class Operation(Record):
    """One operation that can be a tool. `parameters` are keyed by the names of their arguments."""

    name: str
    method: str
    path: str
    server: str
    description: str
    parameters: Mapping[str, Parameter]
    body: Body | None
    schema: Mapping[str, Any]
    security: tuple[Scheme, ...]
    key_header: str | None

    @property
    def names(self) -> tuple[str, str]:
        """Name, and method with path, which patterns of the configuration match."""
        return self.name, f"{self.method.upper()} {self.path}"


class Operations(Record):
    """The operations that an entry allows; `problems`: name -> why an allowed one cannot be used."""

    usable: Mapping[str, Operation]
    problems: Mapping[str, str]


def operations_of(document: Document, entry: OpenApiEntry, *, found_at: str | None = None) -> Operations:
    """Read the operations that the entry allows. DocumentError if the whole document cannot be used."""
    security = Security.read(document, entry)
    usable: dict[str, Operation] = {}
    problems: dict[str, str] = {}
    taken: set[str] = set()
    for count, (method, path, item, spec) in enumerate(_each(document)):
        if count >= MAX_OPERATIONS:
            raise DocumentError(f"it has over {MAX_OPERATIONS:,} operations")
        name = _name(spec, method, path, taken)
        if not entry.allows((name, f"{method.upper()} {path}")):
            continue
        reader = _Reader(document, entry, security, name, method, path)
        try:
            usable[name] = reader.read(item, spec, found_at)
        except (DocumentError, SchemaError) as error:
            if len(problems) < MAX_PROBLEMS:
                problems[name] = str(error)
        if len(usable) > MAX_TOOLS:
            raise DocumentError(f"over {MAX_TOOLS} operations are allowed; name fewer under allow")
    return Operations(usable, problems)


def _each(document: Document) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[Any, Any]]]:
    for path, part in document.mapping(document.root.get("paths")).items():
        if not path.startswith("/"):
            continue
        try:
            item = document.mapping(part)
        except DocumentError as error:
            yield "get", path, {}, {_PROBLEM: str(error)}  # reported under this name
            continue
        for method in METHODS:
            if method in item:
                spec = item[method]
                yield (
                    method,
                    path,
                    item,
                    spec if isinstance(spec, Mapping) else {_PROBLEM: "it is no mapping"},
                )


def _name(spec: Mapping[str, Any], method: str, path: str, taken: set[str]) -> str:
    """Return a unique name of letters, digits, `_` and `-`, from the operation's id, or method and path."""
    stated = spec.get("operationId")
    plain = _NOT_A_NAME.sub("_", stated).strip("_") if isinstance(stated, str) else ""
    if not plain:
        plain = f"{method}_{_NOT_A_NAME.sub('_', path).strip('_')}".strip("_")
    if not (plain[0].isalpha() and plain[0].isascii()):
        plain = f"_{plain}"
    name, number = plain[:MAX_TOOL_NAME_CHARS], 1
    while name in taken:
        number += 1
        end = f"_{number}"
        name = f"{plain[: MAX_TOOL_NAME_CHARS - len(end)]}{end}"
    taken.add(name)
    return name


@dataclass(slots=True)
class _Reader:
    """Reads one operation."""

    document: Document
    entry: OpenApiEntry
    security: Security
    name: str
    method: str
    path: str

    def read(self, item: Mapping[str, Any], spec: Mapping[Any, Any], found_at: str | None) -> Operation:
        """Return the operation. DocumentError or SchemaError if it cannot be a tool."""
        if _PROBLEM in spec:
            raise DocumentError(spec[_PROBLEM])
        schemes = self.security.of(spec)
        found, key_header = self._parameters(item, spec)
        writer = SchemaWriter(self.document)
        properties: dict[str, Any] = {}
        required: list[str] = []
        arguments = _named(found)
        for argument, parameter in arguments.items():
            properties[argument] = _described(writer.write(parameter.schema), parameter.description)
            if parameter.required:
                required.append(argument)
        body = self._body(spec, writer, properties, required)
        schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        if writer.definitions:
            schema["$defs"] = writer.definitions
        ToolSchema(schema)
        return Operation(
            name=self.name,
            method=self.method,
            path=self.path,
            server=server_of(self.document, self.entry, item, spec, found_at),
            description=self._description(spec),
            parameters=arguments,
            body=body,
            schema=schema,
            security=schemes,
            key_header=key_header,
        )

    def _parameters(
        self, item: Mapping[str, Any], spec: Mapping[str, Any]
    ) -> tuple[list[Parameter], str | None]:
        """Return the parameters set by arguments, and the name of the header for the idempotency key."""
        listed = self.document.listed
        parts = [*listed(item.get("parameters")), *listed(spec.get("parameters"))]
        if len(parts) > MAX_PARAMETERS:
            raise DocumentError(f"it has over {MAX_PARAMETERS} parameters")
        found = {(p.location, p.name): p for p in (Parameter.read(self.document, part) for part in parts)}
        key_header = None
        kept = []
        for (location, name), parameter in found.items():
            if location == "header" and name.lower() in _KEY_HEADERS:
                key_header = name
            elif self.security.sets(location, name) or (
                location == "header" and name.lower() in _OWN_HEADERS
            ):
                continue
            else:
                kept.append(parameter)
        in_template = set(_TEMPLATE.findall(self.path))
        in_path = {parameter.name for parameter in kept if parameter.location == "path"}
        if in_template != in_path:
            raise DocumentError(f"its path {self.path[:100]!r} and its path parameters do not fit each other")
        return sorted(kept, key=lambda parameter: LOCATIONS.index(parameter.location)), key_header

    def _body(
        self, spec: Mapping[str, Any], writer: SchemaWriter, properties: dict[str, Any], required: list[str]
    ) -> Body | None:
        request = self.document.mapping(spec.get("requestBody"))
        content = self.document.mapping(request.get("content"))
        if not content:
            return None
        argument = "body"
        while argument in properties:
            argument = f"{argument}_"
        body, body_schema = choose_body(self.document, content, argument)
        schema = writer.write(body_schema)
        properties[argument] = _described(schema, str(request.get("description") or "the body"))
        if request.get("required") is True:
            required.append(argument)
        return body

    def _description(self, spec: Mapping[str, Any]) -> str:
        texts = [spec.get("summary"), spec.get("description")]
        parts = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
        if spec.get("deprecated") is True:
            parts.append("Deprecated.")
        text = "\n\n".join(dict.fromkeys(parts)) or f"{self.method.upper()} {self.path}"
        return shortened(text, MAX_DESCRIPTION_CHARS)


def _named(parameters: list[Parameter]) -> dict[str, Parameter]:
    """Return the parameters by names that model services accept; a repeated name gets its location added."""
    found: dict[str, Parameter] = {}
    for parameter in parameters:
        plain = _NOT_A_NAME.sub("_", parameter.name).strip("_")[:MAX_TOOL_NAME_CHARS] or parameter.location
        name, number = plain, 1
        while name in found:
            end = f"_{parameter.location}" if number == 1 else f"_{parameter.location}_{number}"
            name, number = f"{plain[: MAX_TOOL_NAME_CHARS - len(end)]}{end}", number + 1
        found[name] = parameter
    return found


def _described(schema: Any, description: str) -> Any:
    if not description.strip():
        return schema
    text = shortened(description, MAX_PART_DESCRIPTION_CHARS)
    if isinstance(schema, bool):
        return {"description": text} if schema else {"not": {}, "description": text}
    return {**schema, "description": text}
