"""Check a plugin's channel manifests, each on its own: an invalid channel does not affect the others."""

from __future__ import annotations

import re

import msgspec

from hostler.domain.config_checks import referring_default, referring_defaults
from hostler.domain.message_split import MIN_LIMIT
from hostler_protocol.channels import ChannelList, ChannelManifest

MAX_CHANNELS = 100
"""Channels of one plugin."""

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}")


def read_channels(listed: ChannelList) -> tuple[dict[str, ChannelManifest], list[str]]:
    """Return the valid channel manifests by name, and warnings about the others."""
    channels: dict[str, ChannelManifest] = {}
    warnings: list[str] = []
    if len(listed.channels) > MAX_CHANNELS:
        warnings.append(f"{len(listed.channels)} channels are listed; the first {MAX_CHANNELS} count")
    for index, raw in enumerate(listed.channels[:MAX_CHANNELS], 1):
        try:
            manifest = msgspec.json.decode(raw, type=ChannelManifest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            warnings.append(f"channel {index} skipped: {error}")
            continue
        wrong = _wrong(manifest, channels)
        if wrong is not None:
            warnings.append(f"channel {index} skipped: {wrong}")
            continue
        channels[manifest.name] = manifest
        warnings += [
            f"channel {manifest.name!r}: {referring_default(item)}"
            for item in referring_defaults(manifest.config_schema)
        ]
    return channels, warnings


def _wrong(manifest: ChannelManifest, known: dict[str, ChannelManifest]) -> str | None:
    if not _NAME.fullmatch(manifest.name):
        return (
            f"{manifest.name[:100]!r} is not a channel's name: 1 to 100 letters, digits, '_', '.', '-', and "
            "no sign first"
        )
    if manifest.name in known:
        return f"the name {manifest.name!r} is used twice"
    if manifest.abilities.max_message < MIN_LIMIT:
        return f"max_message of {manifest.name!r} is below {MIN_LIMIT}: no text can be split for it"
    return None
