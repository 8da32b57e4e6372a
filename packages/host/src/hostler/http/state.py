"""The state that all routes share: the host and the parts of this server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hostler.domain.token_bucket import TokenBuckets
from hostler.http.api_docs import ApiDocs
from hostler.http.asgi import Scope
from hostler.http.auth import KeyRing
from hostler.http.cors import Cors
from hostler.http.mcp.levels import SessionLevels
from hostler.http.metrics import Metrics
from hostler.http.open_keys import OpenKeys
from hostler.http.proxies import TrustedProxies
from hostler.http.sessions import SessionRing
from hostler.http.sign_ins import SignIns
from hostler.http.streams import Streams

if TYPE_CHECKING:
    from hostler.host.host import Host


@dataclass(slots=True)
class AppState:
    """The shared state of one server over one host."""

    host: Host
    keys: KeyRing
    sessions: SessionRing
    sign_ins: SignIns
    open_keys: OpenKeys
    rates: TokenBuckets
    token_rates: TokenBuckets
    cors: Cors
    streams: Streams
    metrics: Metrics
    docs: ApiDocs
    proxies: TrustedProxies
    mcp_levels: SessionLevels = field(default_factory=SessionLevels)
    sockets: set[object] = field(default_factory=set)
    """The connections of `/v1/ws` that are open."""

    def address_of(self, scope: Scope, headers: Mapping[str, str] | None = None) -> str:
        """Return the address of a request's client: the peer, unless that is a trusted proxy, which names it.

        `headers`: those of the request, if they have been read.
        """
        client = scope.get("client")
        if not client:
            return "local"
        named = _forwarded_for(scope) if headers is None else headers.get("x-forwarded-for")
        return self.proxies.client_of(client[0], named)


def _forwarded_for(scope: Scope) -> str | None:
    found = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    return ", ".join(found) or None
