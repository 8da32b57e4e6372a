"""The two servers of a mailbox, as its settings name them, and connections to them."""

from __future__ import annotations

import re
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Literal

from hostler_sdk import network
from hostler_sdk.channels import SetupError

CONNECT_SECONDS = 15.0
Security = Literal["tls", "starttls", "none"]
SECURITY = ("tls", "starttls", "none")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")


@dataclass(frozen=True, slots=True)
class Server:
    """A server of mail, and how one speaks with it."""

    host: str
    port: int
    security: Security
    context: ssl.SSLContext

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def server_of(settings: dict[str, Any], kind: str, ports: dict[str, int]) -> Server:
    """Return the server of the settings that begin with `kind`. Raises SetupError."""
    host = str(settings.get(f"{kind}-server") or "").strip()
    security, port = settings.get(f"{kind}-security", "tls"), settings.get(f"{kind}-port", 0)
    if not _HOST.fullmatch(host):
        raise SetupError(f"`{kind}-server` must be the name of a server, like {kind}.example.org")
    if security not in SECURITY:
        raise SetupError(f"`{kind}-security` must be one of {', '.join(SECURITY)}")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
        raise SetupError(f"`{kind}-port` must be a number from 1 to 65535, or 0 for the usual one")
    return Server(host, port or ports[security], security, _context(settings))


def _context(settings: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if own := str(settings.get("certificates") or "").strip():
        try:
            context.load_verify_locations(cadata=own)
        except (ssl.SSLError, ValueError):
            raise SetupError(
                "`certificates` must be certificates in PEM: -----BEGIN CERTIFICATE-----"
            ) from None
    return context


def connect(server: Server) -> socket.socket:
    """Return a connection to a server, without TLS. It blocks, for a bounded time. Raises OSError."""
    return network.connect(server.host, server.port, seconds=CONNECT_SECONDS)
