"""The state that all routes share: the host and the parts of this server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hostler.domain.token_bucket import TokenBuckets
from hostler.http.api_docs import ApiDocs
from hostler.http.auth import KeyRing
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
    streams: Streams
    metrics: Metrics
    docs: ApiDocs
    proxies: TrustedProxies
