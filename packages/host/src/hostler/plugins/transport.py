"""What a connection needs of the way to its plugin process, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hostler_protocol.errors import PluginError


class Transport(Protocol):
    """The way to one plugin process. All methods are called on the loop and return at once."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes given to `send` that the peer has not taken."""

    def send(self, messages: Sequence[bytes]) -> None:
        """Send messages, each one whole and ending with a line end."""

    def pause_reading(self) -> None:
        """Deliver nothing more until `resume_reading`."""

    def resume_reading(self) -> None:
        """Go on."""

    def close_sending(self) -> None:
        """Tell the peer that nothing more comes: it should exit."""

    def abort(self) -> None:
        """End the peer by force. `Receiver.lost` follows."""


class Receiver(Protocol):
    """Where a transport delivers."""

    def bytes_received(self, data: bytes) -> None:
        """Bytes of a stream, cut in any way."""

    def frame_received(self, data: bytes | str) -> None:
        """One whole message."""

    def sent_some(self) -> None:
        """Unsent bytes have gone below the transport's low mark."""

    def lost(self, error: PluginError) -> None:
        """The way is gone; nothing further is delivered."""
