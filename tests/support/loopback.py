"""What HTTP clients of tests need that speak to a server on this machine."""

from __future__ import annotations

import ssl

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For `verify=`: without it each client loads the certificates of the web, 30 ms of processor time."""
