"""The configuration of an OpenAPI document, and its rules for the document's operations. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from hostler.domain.config_mistakes import key_place
from hostler.domain.name_patterns import best_match, matches
from hostler.domain.secret_refs import is_reference
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import KIB, MAX_TOOL_RESULT_BYTES
from hostler_protocol.manifest import ToolEffect

OpenApiApproval = Literal["never", "required"]
OpenApiEffect = Literal["default", "pure", "idempotent"]
"""Without `reconcilable`: such a service cannot be asked for the outcome of a call."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_EFFECT_OF_METHOD: dict[str, ToolEffect] = {
    "get": "pure",
    "head": "pure",
    "put": "idempotent",
    "delete": "idempotent",
}
"""As HTTP defines its methods: a repeated PUT or DELETE has the same effect as a single one."""


class OpenApiEntry(Strict):
    """An OpenAPI document, whose operations become tools.

    `document` is a file or an address; one from an address needs its `digest`, so that changes are noticed
    and approved. `allow`, `deny`, `approval` and `effects` use patterns (`*`) of an operation's name, or of
    its method and path (`GET /pets/*`). `auth` maps security schemes of the document to secrets, as
    references; for HTTP basic the secret is `user:password`. `anonymous`: operations whose scheme has no
    secret are offered, and called without credentials. `network`: non-public hosts and networks that the
    service may have.
    """

    name: str
    document: str
    digest: str | None = None
    base_url: str | None = None
    allow: list[str] | None = None
    deny: list[str] = []
    approval: OpenApiApproval | dict[str, OpenApiApproval] = "never"
    effects: dict[str, OpenApiEffect] = {}
    auth: dict[str, str] = {}
    anonymous: bool = False
    network: list[str] = []
    seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 30.0
    """Time limit of one call, retries included."""
    response_kib: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = MAX_TOOL_RESULT_BYTES // KIB
    """Size limit of one response; the rest is not read."""

    @property
    def owner(self) -> str:
        """The document's name as the owner of its tools."""
        return f"openapi:{self.name}"

    @property
    def is_address(self) -> bool:
        """Whether the document is fetched from an address."""
        return self.document.lower().startswith(("http://", "https://"))

    @property
    def response_bytes(self) -> int:
        """`response_kib` in bytes."""
        return self.response_kib * KIB

    def allows(self, names: tuple[str, str]) -> bool:
        """Whether an operation may be offered to agents. `names`: its name, and its method and path."""
        if any(matches(pattern, name) for pattern in self.deny for name in names):
            return False
        return self.allow is None or any(matches(pattern, name) for pattern in self.allow for name in names)

    def approval_of(self, names: tuple[str, str]) -> OpenApiApproval:
        """Whether each call of the operation needs a person's approval, by the operator's setting."""
        if isinstance(self.approval, str):
            return self.approval
        best = _best(self.approval, names)
        return "never" if best is None else self.approval[best]

    def effect_of(self, names: tuple[str, str], method: str, *, has_key: bool) -> ToolEffect:
        """Return the effect class: the operator's setting, else by method. `has_key`: takes an idempotency
        key."""
        if (best := _best(self.effects, names)) is not None:
            return self.effects[best]
        return _EFFECT_OF_METHOD.get(method, "idempotent" if has_key else "default")


def _best(
    patterns: dict[str, OpenApiApproval] | dict[str, OpenApiEffect], names: tuple[str, str]
) -> str | None:
    by_name, by_path = (best_match(patterns, name) for name in names)
    return by_path if by_name is None else by_name


def check_openapi_entry(entry: OpenApiEntry) -> None:
    """Check an entry. InvalidArgumentError names the entry and what is expected, and has the `field`."""
    try:
        _check(entry)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"tools: openapi {entry.name!r}: {error.message}", **error.details
        ) from None


def _check(entry: OpenApiEntry) -> None:
    if not entry.document:
        raise InvalidArgumentError("document is empty: name a file or an address", field="document")
    if entry.digest is not None and not _DIGEST.fullmatch(entry.digest):
        raise InvalidArgumentError("digest is not sha256: and 64 hexadecimal digits", field="digest")
    for what, url in (
        ("document", entry.document if entry.is_address else None),
        ("base_url", entry.base_url),
    ):
        if url is not None:
            _check_url(what, url)
    for scheme, secret in entry.auth.items():
        if not is_reference(secret):
            raise InvalidArgumentError(
                f"auth: {scheme[:100]!r} is no reference: write env:NAME, file:PATH or secret://NAME, since "
                "it is stored",
                field=key_place("auth", scheme),
            )
    approval = {} if isinstance(entry.approval, str) else entry.approval
    patterns = {
        "allow": entry.allow or [],
        "deny": entry.deny,
        "approval": approval,
        "effects": entry.effects,
    }
    for field, which in patterns.items():
        for pattern in which:
            if not pattern or len(pattern) > 500:
                raise InvalidArgumentError(f"{pattern!r:.80} is no pattern of operations", field=field)


def _check_url(what: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or (what == "base_url" and (parts.query or parts.fragment)):
        raise InvalidArgumentError(f"{what} is no address like https://api.example.com/v1", field=what)
    if "@" in parts.netloc:
        raise InvalidArgumentError(f"{what} holds a user or a password: give them under auth", field=what)
