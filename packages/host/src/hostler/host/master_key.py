"""The master key of an installation: opens the key ring that the entry `master_key` names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from hostler.domain.config_changes import ConfigProblem
from hostler.host.config_entries import POLICY
from hostler.host.stored_config import StoredConfig
from hostler.secrets.key_ring import LiveKeyRing, Locked, open_key_ring
from hostler_protocol.errors import InvalidArgumentError

log = logging.getLogger(__name__)


class MasterKey:
    """Keeps the key ring as configured."""

    def __init__(self) -> None:
        self.key_ring = LiveKeyRing()
        self._references: Sequence[str] = ()

    async def configure(self, stored: StoredConfig) -> list[ConfigProblem]:
        """Read the keys anew, and return the problem with them.

        If keys that were read before cannot be read now (a key management service that does not answer), the
        ring stays as it is.
        """
        if (unreadable := stored.unreadable("master_key")) is not None:
            self._references = ()
            self.key_ring.replace(Locked(unreadable))
            return []
        references = stored.config.master_key
        same, self._references = references == self._references, references
        try:
            ring = await asyncio.to_thread(open_key_ring, references)
        except InvalidArgumentError as error:
            if not same or self.key_ring.locked is not None:
                self.key_ring.replace(Locked(error.message.removeprefix("master_key: ")))
            else:
                log.warning("%s; the keys that were read before stay in use", error.message)
            return [ConfigProblem(kind="master_key", name=POLICY, problem=error.message)]
        self.key_ring.replace(ring)
        return []
