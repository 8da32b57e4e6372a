"""What the routes share: the host and the parts of this server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hostler.http.api_docs import ApiDocs
from hostler.http.auth import KeyRing
from hostler.http.metrics import Metrics
from hostler.http.rate_limits import Rates
from hostler.http.streams import Streams

if TYPE_CHECKING:
    from hostler.host.host import Host


@dataclass(slots=True)
class AppState:
    """One server over one host."""

    host: Host
    keys: KeyRing
    rates: Rates
    streams: Streams
    metrics: Metrics
    docs: ApiDocs
