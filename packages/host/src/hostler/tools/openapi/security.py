"""Security schemes: which of them an operation needs, and what their secrets add to a request.

Secrets are looked up for each call, and appear nowhere but in the request.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.domain.suggestions import did_you_mean
from hostler.tools.openapi.document import Document, DocumentError
from hostler.tools.openapi.parameters import escaped
from hostler_protocol.errors import InvalidArgumentError

SchemeKind = Literal["header", "query", "cookie", "bearer", "basic"]
MIN_REDACTED_CHARS = 6
"""A shorter secret is not looked for in answers: it would be found everywhere."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A scheme with its secret's reference. `field`: the header, query parameter or cookie of an API key."""

    name: str
    kind: SchemeKind
    field: str
    reference: str


@dataclass(slots=True)
class Credentials:
    """What the secrets add to one request. `secrets`: every form of them that an answer might repeat."""

    headers: dict[str, str] = field(default_factory=dict)
    query: list[str] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)

    def redacted(self, text: str) -> str:
        """The text without the secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "[secret]")
        return text


@dataclass(frozen=True, slots=True)
class Security:
    """The schemes that an entry has secrets for, and what the whole document asks for."""

    schemes: Mapping[str, Scheme]
    fields: frozenset[tuple[str, str]]
    """Place and name of every API key of the document: none of them is an argument."""
    required: Any
    anonymous: bool

    @classmethod
    def read(cls, document: Document, entry: OpenApiEntry) -> Security:
        """DocumentError where the entry gives a secret to no scheme of the document."""
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
        """The schemes for one operation: of what it accepts the first that the entry has secrets for."""
        required = spec.get("security", self.required)
        if required is not None and not isinstance(required, list):
            raise DocumentError("what it says of security is no list")
        choices = [choice for choice in required or [] if isinstance(choice, Mapping)]
        for choice in choices:
            if choice and all(name in self.schemes for name in choice):
                return tuple(self.schemes[name] for name in choice)
        if self.anonymous or not choices or any(not choice for choice in choices):
            return ()
        told = " or ".join(" with ".join(map(str, choice)) for choice in choices)[:200]
        raise DocumentError(f"it needs {told}, and auth names no secret for it")

    def sets(self, location: str, name: str) -> bool:
        """Whether a parameter is a credential, which no argument gives."""
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
    """What the schemes add; `secrets` by reference. InvalidArgumentError names one that can't be sent."""
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
