"""What is kept with the host: messages that are yet to be delivered, and files that are yet to be sent."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler_sdk.channels import Channel

MAX_STATE_BYTES = 48 * 1024
"""The host keeps 64 KiB; what does not fit waits for its answer instead."""
MAX_UPLOADS = 100


class Position:
    """The state of one channel. `keep` or `deliver` makes it durable."""

    def __init__(self, channel: Channel) -> None:
        state = channel.state if isinstance(channel.state, dict) else {}
        pending, uploads = state.get("pending"), state.get("uploads")
        self.pending: dict[str, str] = {}
        """By event id: messages that WeCom was told are stored, in its ciphertext: the state is no secret."""
        for event_id, sealed in pending.items() if isinstance(pending, dict) else ():
            if isinstance(sealed, str):
                self.pending[event_id] = sealed
        self._uploads: dict[str, list[list[str]]] = {}
        for key, files in uploads.items() if isinstance(uploads, dict) else ():
            if isinstance(files, list) and all(isinstance(one, list) and len(one) == 2 for one in files):
                self._uploads[key] = files

    @property
    def state(self) -> dict[str, Any]:
        """What is to be kept now."""
        return {"pending": dict(self.pending), "uploads": dict(self._uploads)}

    def put(self, event_id: str, sealed: str) -> bool:
        """Add a message that is to be delivered later; False if there is no room."""
        self.pending[event_id] = sealed
        if len(msgspec.json.encode(self.state)) <= MAX_STATE_BYTES:
            return True
        del self.pending[event_id]
        return False

    def uploaded(self, key: str, files: list[tuple[str, str]]) -> None:
        """Note the files of a message that are uploaded, each with its kind, before any is sent."""
        self._uploads.pop(key, None)
        self._uploads[key] = [[kind, media_id] for kind, media_id in files]
        while len(self._uploads) > MAX_UPLOADS or len(msgspec.json.encode(self.state)) > MAX_STATE_BYTES:
            del self._uploads[next(iter(self._uploads))]
            if not self._uploads:
                break

    def files_of(self, key: str) -> list[tuple[str, str]]:
        """Return the files of a message that were uploaded before."""
        return [(str(kind), str(media_id)) for kind, media_id in self._uploads.get(key, [])]

    def sent(self, key: str) -> None:
        """Forget the files of a message that was sent."""
        self._uploads.pop(key, None)
