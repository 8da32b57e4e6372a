"""Configured channels as stores read them, in the transaction that depends on them."""

from __future__ import annotations

import msgspec

from hostler.domain.channels import ChannelEntry
from hostler.storage.port import Tx
from hostler.storage.stores import settings
from hostler_protocol.errors import InvalidArgumentError

CHANNEL = "channel"
"""The kind of setting under which a channel is stored."""


def is_configured(tx: Tx, workspace_id: str, channel: str) -> bool:
    """Whether there is an entry of a channel, also if this version cannot read it."""
    return settings.find(tx, workspace_id, CHANNEL, channel) is not None


def entry_of(tx: Tx, workspace_id: str, channel: str) -> ChannelEntry | None:
    """Return a configured channel; None if there is none that this version can read."""
    setting = settings.find(tx, workspace_id, CHANNEL, channel)
    if setting is None:
        return None
    try:
        return msgspec.convert(setting.spec, ChannelEntry)
    except (msgspec.ValidationError, InvalidArgumentError):
        return None
