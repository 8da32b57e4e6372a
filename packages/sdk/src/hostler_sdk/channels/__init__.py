"""Write channels: connections to a chat platform, through which people reach agents.

Derive a class from `Channel`, write its `open`, `run` and `send`, and name it under `channels:` in
hostler.yaml. The host opens it once per configured account, gives it messages to send, and keeps what it
delivers. One with a library of its platform derives `ConnectedChannel` instead. See docs/write-a-channel.md.
"""

from __future__ import annotations

from hostler_protocol.channels import (
    Button,
    ChannelEvent,
    ChannelFound,
    ChannelMessage,
    ChannelRequestParams,
    ChannelResponse,
    ChannelTarget,
    Chat,
    IngestEventReply,
    Person,
)
from hostler_protocol.content import ArtifactRef
from hostler_sdk.channels.channel import Channel, NotSent, SetupError, UnclearError
from hostler_sdk.channels.connection import (
    ChannelActions,
    ChannelConnection,
    ChannelSender,
    ConnectedChannel,
)

__all__ = [
    "ArtifactRef",
    "Button",
    "Channel",
    "ChannelActions",
    "ChannelConnection",
    "ChannelEvent",
    "ChannelFound",
    "ChannelMessage",
    "ChannelRequestParams",
    "ChannelResponse",
    "ChannelSender",
    "ChannelTarget",
    "Chat",
    "ConnectedChannel",
    "IngestEventReply",
    "NotSent",
    "Person",
    "SetupError",
    "UnclearError",
]
