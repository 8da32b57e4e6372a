"""Security schemes: which an operation needs, and the credentials that they add to a request.

Secrets are resolved for each call, and appear only in the request.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.domain.record import Record
from hostler.domain.suggestions import did_you_mean
from hostler.tools.openapi.document import Document, DocumentError
from hostler.tools.openapi.parameters import escaped
from hostler_protocol.errors import InvalidArgumentError

SchemeKind = Literal["header", "query", "cookie", "bearer", "basic"]
MIN_REDACTED_CHARS = 6
"""Shorter secrets are not redacted in responses: they would be found everywhere."""


class Scheme(Record):
    """A scheme and the reference of its secret. `field`: the header, query parameter or cookie."""

    name: str
    kind: SchemeKind
    field: str
    reference: str


@dataclass(slots=True)
class Credentials:
    """Credentials of one request. `secrets`: every form of the secrets that a response might repeat."""

    headers: dict[str, str] = field(default_factory=dict)
    query: list[str] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)

    def redacted(self, text: str) -> str:
        """Return the text with secrets replaced."""
        for secret in self.secrets:
            text = text.replace(secret, "[secret]")
        return text


class Security(Record):
    """The schemes for which an entry has secrets, and the document's general requirement."""

    schemes: Mapping[str, Scheme]
    fields: frozenset[tuple[str, str]]
    """Location and name of every API key of the document; arguments must not set them."""
    required: Any
    anonymous: bool

    @classmethod
    def read(cls, document: Document, entry: OpenApiEntry) -> Security:
        """Read the schemes. DocumentError if the entry names a scheme that the document does not have."""
        components = document.mapping(document.root.get("components"))
        declared = document.mapping(components.get("securitySchemes"))
        schemes: dict[str, Scheme] = {}
        fields: set[tuple[str, str]] = set()
        for name, part in declared.items():
            spec = document.mapping(part)
            if spec.get("type") == "apiKey":
                fields.add((str(spec.get("in")), str(spec.get("name")).lower()))
            if name in entry.auth:
                schemes[name] = _scheme(name, spec, entry.auth[name])
        for name in entry.auth:
            if name not in schemes:
                raise DocumentError(f"it has no security scheme {name!r:.80}: {did_you_mean(name, declared)}")
        return cls(schemes, frozenset(fields), document.root.get("security"), entry.anonymous)

    def of(self, spec: Mapping[str, Any]) -> tuple[Scheme, ...]:
        """Return the schemes for an operation: its first accepted choice with secrets. DocumentError."""
        required = spec.get("security", self.required)
        if required is not None and not isinstance(required, list):
            raise DocumentError("its security is no list")
        choices = [choice for choice in required or [] if isinstance(choice, Mapping)]
        for choice in choices:
            if choice and all(name in self.schemes for name in choice):
                return tuple(self.schemes[name] for name in choice)
        if self.anonymous or not choices or any(not choice for choice in choices):
            return ()
        needed = " or ".join(" with ".join(map(str, choice)) for choice in choices)[:200]
        raise DocumentError(f"it needs {needed}, and auth names no secret for it")

    def sets(self, location: str, name: str) -> bool:
        """Whether a parameter is a credential, which arguments must not set."""
        return (location, name.lower()) in self.fields


def _scheme(name: str, spec: Mapping[str, Any], reference: str) -> Scheme:
    kind, where, field_name = spec.get("type"), spec.get("in"), spec.get("name")
    if kind == "apiKey" and isinstance(field_name, str) and field_name:
        if where == "header":
            return Scheme(name, "header", field_name, reference)
        if where == "query":
            return Scheme(name, "query", field_name, reference)
        if where == "cookie":
            return Scheme(name, "cookie", field_name, reference)
    if kind == "http" and str(spec.get("scheme")).lower() == "basic":
        return Scheme(name, "basic", "authorization", reference)
    if kind in ("oauth2", "openIdConnect") or (
        kind == "http" and str(spec.get("scheme")).lower() == "bearer"
    ):
        return Scheme(name, "bearer", "authorization", reference)
    raise DocumentError(f"its security scheme {name!r:.80} is of a kind that can't be used")


def credentials_of(schemes: tuple[Scheme, ...], secrets: Mapping[str, str]) -> Credentials:
    """Build credentials; `secrets` by reference. InvalidArgumentError names one that cannot be sent."""
    made = Credentials()
    for scheme in schemes:
        secret = secrets[scheme.reference]
        if not secret or not secret.isprintable() or not secret.isascii():
            raise InvalidArgumentError(f"{scheme.reference}: it holds what no request can carry")
        forms = [secret]
        match scheme.kind:
            case "header":
                made.headers[scheme.field.lower()] = secret
            case "query":
                made.query.append(f"{escaped(scheme.field)}={escaped(secret)}")
                forms.append(escaped(secret))
            case "cookie":
                made.cookies.append(f"{scheme.field}={escaped(secret)}")
                forms.append(escaped(secret))
            case "bearer":
                made.headers["authorization"] = f"Bearer {secret}"
            case "basic":
                forms.append(base64.b64encode(secret.encode()).decode())
                forms.append(secret.partition(":")[2])
                made.headers["authorization"] = f"Basic {forms[1]}"
        made.secrets += [form for form in forms if len(form) >= MIN_REDACTED_CHARS]
    made.secrets.sort(key=len, reverse=True)
    return made
