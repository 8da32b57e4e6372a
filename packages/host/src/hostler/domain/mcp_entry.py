"""The configuration of an MCP server, and its rules for each of the server's tools. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from hostler.domain.config_mistakes import key_place
from hostler.domain.endpoints import parse_host_port
from hostler.domain.name_patterns import best_match, matches
from hostler.domain.secret_refs import is_reference
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import KIB, MAX_TOOL_RESULT_BYTES
from hostler_protocol.manifest import ToolEffect

McpApproval = Literal["never", "required"]
McpEffect = Literal["default", "pure", "idempotent"]
"""Without `reconcilable`: an MCP server cannot be asked for the outcome of a call."""
McpLevel = Literal["trusted", "sandboxed"]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=24 * 3600)]
Processors = Annotated[float, msgspec.Meta(ge=0.05, le=10_000)]
"""Processor time, in processors."""

_SECRET_NAME = re.compile(r"authorization|cookie|token|secret|passw|api[-_]?key|credential", re.IGNORECASE)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_OWN_HEADERS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)
"""Headers that the HTTP client sets."""


class McpEntry(Strict):
    """An MCP server: a `command` that speaks over stdin and stdout, or the `url` of streamable HTTP.

    `allow` and `deny` are patterns (`*`) of the server's own tool names; None allows all. `approval` and
    `effects` use such patterns too; the most specific one applies. The server's annotations of its tools
    (`readOnlyHint`, `idempotentHint`) affect their effect class only with `trust_annotations`.
    `network`: endpoints that a sandboxed command may reach (`host:port`), or non-public addresses that `url`
    may resolve to (hosts, addresses, networks, with or without `:port`). `read` and `write` are folders for a
    sandboxed command.
    """

    name: str
    command: list[str] | None = None
    url: str | None = None
    environment: dict[str, str] = {}
    headers: dict[str, str] = {}
    token: str | None = None
    """Sent as `Authorization: Bearer`; a reference."""
    allow: list[str] | None = None
    deny: list[str] = []
    approval: McpApproval | dict[str, McpApproval] = "never"
    effects: dict[str, McpEffect] = {}
    trust_annotations: bool = False
    seconds: Seconds = 60.0
    """Time limit of one call."""
    connect_seconds: Seconds = 60.0
    """From the start of the server to the list of its tools; many servers download at their first start."""
    result_kib: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = MAX_TOOL_RESULT_BYTES // KIB
    """Size limit of one result; content sent twice, as text and as structured content, counts once."""
    level: McpLevel = "sandboxed"
    network: list[str] = []
    read: list[str] = []
    write: list[str] = []
    memory_mib: Annotated[int, msgspec.Meta(ge=16, le=1_048_576)] = 1024
    processes: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 128
    """Processes and threads of a sandboxed command."""
    disk_mib: Annotated[int, msgspec.Meta(ge=1, le=1_048_576)] = 512
    """Limit for its own folder and those of `write` together."""
    cpus: Processors | None = None
    """Processor time of a sandboxed command, in processors; it runs on no more of them than that."""
    cwd: str | None = None
    """Working directory of the command; None: a separate folder below the data directory."""

    @property
    def owner(self) -> str:
        """The server's name as the owner of its tools."""
        return f"mcp:{self.name}"

    @property
    def result_bytes(self) -> int:
        """`result_kib` in bytes."""
        return self.result_kib * KIB

    def allows(self, tool: str) -> bool:
        """Whether the server's tool of this name may be offered to agents."""
        if any(matches(pattern, tool) for pattern in self.deny):
            return False
        return self.allow is None or any(matches(pattern, tool) for pattern in self.allow)

    def approval_of(self, tool: str) -> McpApproval:
        """Whether each call of the tool needs a person's approval, by the operator's setting."""
        if isinstance(self.approval, str):
            return self.approval
        best = best_match(self.approval, tool)
        return "never" if best is None else self.approval[best]

    def effect_of(self, tool: str, *, read_only: bool, idempotent: bool) -> ToolEffect:
        """Return the effect class: the operator's setting, else the server's trusted annotations."""
        if (best := best_match(self.effects, tool)) is not None:
            return self.effects[best]
        if self.trust_annotations and read_only:
            return "pure"
        return "idempotent" if self.trust_annotations and idempotent else "default"


def check_mcp_entry(entry: McpEntry) -> None:
    """Check an entry. InvalidArgumentError names the server and what is expected, and has the `field`."""
    try:
        _check(entry)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"tools: mcp {entry.name!r}: {error.message}", **error.details) from None


def _check(entry: McpEntry) -> None:
    if (entry.command is None) == (entry.url is None):
        raise InvalidArgumentError("give either a command or a url", field="command")
    if entry.command is not None:
        _check_command(entry, entry.command)
    else:
        _check_url(entry, entry.url or "")
    patterns = {
        "allow": entry.allow or [],
        "deny": entry.deny,
        "effects": entry.effects,
        "approval": _patterns(entry.approval),
    }
    for field, which in patterns.items():
        for pattern in which:
            if not pattern or len(pattern) > 200:
                raise InvalidArgumentError(f"{pattern!r:.80} is no pattern of tool names", field=field)


def _patterns(approval: McpApproval | dict[str, McpApproval]) -> Iterable[str]:
    return () if isinstance(approval, str) else approval


def _check_command(entry: McpEntry, command: list[str]) -> None:
    _not_with(entry, "command", "headers", "token")
    if not command or not command[0] or any("\0" in part for part in command):
        raise InvalidArgumentError(
            "command is a program and its arguments, like [npx, -y, some-server]", field="command"
        )
    for name, value in entry.environment.items():
        if not _VARIABLE.fullmatch(name) or name.startswith("HOSTLER_"):
            raise InvalidArgumentError(
                f"environment: {name!r:.80} is no name that it may have", field="environment"
            )
        _check_secret("environment", name, value)
    for endpoint in entry.network:
        try:
            parse_host_port(endpoint)
        except ValueError as error:
            raise InvalidArgumentError(f"network: {error}", field="network") from None
    if entry.level == "trusted":
        _not_with(entry, "level: trusted", "network", "read", "write")


def _check_url(entry: McpEntry, url: str) -> None:
    _not_with(entry, "url", "environment", "read", "write", "cwd")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidArgumentError("url is no address like https://example.com/mcp", field="url")
    if parts.username or parts.password:
        raise InvalidArgumentError(
            "url holds a user or a password: give them as token or headers", field="url"
        )
    if entry.token is not None and not is_reference(entry.token):
        raise InvalidArgumentError(
            "token is no reference: write env:NAME, file:PATH or secret://NAME, since it is stored",
            field="token",
        )
    for name, value in entry.headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS or name.lower().startswith("mcp-"):
            raise InvalidArgumentError(f"headers: {name!r:.80} is no header that can be set", field="headers")
        _check_secret("headers", name, value)
    if entry.token is not None and any(name.lower() == "authorization" for name in entry.headers):
        raise InvalidArgumentError(
            "token and headers both say Authorization: give one of them", field="token"
        )


def needs_reference(name: str) -> bool:
    """Whether the value of a variable or header of this name has to be a reference."""
    return _SECRET_NAME.search(name) is not None


def _check_secret(where: str, name: str, value: str) -> None:
    if needs_reference(name) and not is_reference(value):
        raise InvalidArgumentError(
            f"{where}: {name} looks like a secret: write env:NAME or file:PATH, since it is stored",
            field=key_place(where, name),
        )
    if any(mark in value for mark in "\0\r\n"):
        raise InvalidArgumentError(f"{where}: {name} holds a line break or NUL", field=key_place(where, name))


def _not_with(entry: McpEntry, what: str, *names: str) -> None:
    for name in names:
        if getattr(entry, name):
            raise InvalidArgumentError(f"{name} does not go with {what}", field=name)
