"""The interfaces between a connection and the transport to its plugin process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hostler_protocol.errors import PluginError


class PluginTransport(Protocol):
    """The transport to one plugin process. All methods are called on the loop and return at once."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes given to `send` that the peer has not read."""

    def send(self, messages: Sequence[bytes]) -> None:
        """Send messages, each complete and ending with a newline."""

    def pause_reading(self) -> None:
        """Deliver nothing more until `resume_reading`."""

    def resume_reading(self) -> None:
        """Continue delivering."""

    def close_sending(self) -> None:
        """Signal the end of input to the peer, which should exit."""

    def abort(self) -> None:
        """Kill the peer. `Receiver.lost` follows."""


class Receiver(Protocol):
    """The receiver of a transport's data."""

    def bytes_received(self, data: bytes) -> None:
        """Receive a part of a byte stream, cut anywhere."""

    def frame_received(self, data: bytes | str) -> None:
        """Receive one complete message."""

    def sent_some(self) -> None:
        """Unsent bytes have fallen below the transport's low mark."""

    def lost(self, error: PluginError) -> None:
        """The transport is closed; nothing further is delivered."""
