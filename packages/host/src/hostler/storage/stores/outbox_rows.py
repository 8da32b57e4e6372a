"""Values of the outbox: messages to be sent, stored ones, and what one host works on."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Row
from hostler_protocol.channels import ChannelMessage, ChannelTarget
from hostler_protocol.ids import digest

DeliveryStatus = Literal["pending", "sending", "sent", "in_doubt", "failed"]
Step = Literal["send", "settle"]
"""What is to be done with a claimed message: send it, or find out whether it was sent."""


class OutboundAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A platform action. `arguments`: its whole target and its payload.

    `speaks`: the platform gets it as the message of its delivery. `repeatable`: to do it twice is as good as
    once.
    """

    name: str
    arguments: dict[str, Any]
    speaks: bool = False
    repeatable: bool = False
    read: bool = False


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """The message that a delivery edits, by its own delivery; `instead`: sent where it cannot be edited."""

    of: str
    instead: ChannelMessage


class Outbound(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message and where it goes, an edit of one, or a platform action.

    `grows`: of an answer that grows, the id of the message that is being made, if it has one.
    """

    target: ChannelTarget
    message: ChannelMessage
    action: OutboundAction | None = None
    edit: Edit | None = None
    grows: str | None = None

    @property
    def is_act(self) -> bool:
        """Whether the plugin is asked to act, and not to send a message."""
        return self.action is not None and not self.action.speaks


_bodies = msgspec.json.Decoder(Outbound)


class NewDelivery(Record, kw_only=True):
    """A message to be sent. `delivery_id`: the same for the same message, which is added once."""

    delivery_id: str
    channel: str
    outbound: Outbound
    conversation_id: str | None = None
    event_id: str | None = None
    run_id: str | None = None
    result_sequence: int | None = None
    growing: int = 0

    @property
    def chat(self) -> str:
        """What it is in order with: the chat, and the thread in it."""
        target, action = self.outbound.target, self.outbound.action
        if action is not None and action.read:  # reads need not wait for what is said
            return digest({"channel": self.channel, "read": self.delivery_id})
        return digest({"channel": self.channel, "chat": target.chat_id, "thread": target.thread_id})


class Delivery(Record, kw_only=True):
    """A stored message. Times are UTC epoch milliseconds.

    `due_at`: when the host works on it next; None: it does no more. `error`: why the last try failed.
    """

    workspace_id: str
    delivery_id: str
    channel: str
    chat: str
    position: int
    outbound: Outbound
    send_key: str
    status: DeliveryStatus
    attempts: int
    due_at: int | None
    error: str | None
    message_id: str | None
    maybe_twice: bool
    conversation_id: str | None
    event_id: str | None
    run_id: str | None
    result_sequence: int | None
    created_at: int
    first_sent_at: int | None
    settled_at: int | None
    perhaps_sent: bool
    """Whether at least once nobody knew if the platform has it."""
    resent_at: int | None
    result: Any = None
    """What the platform answered to an action."""
    growing: int = 0
    """1: an answer of which more is to come; 2: its text is final, the platform may have an earlier one."""
    version: int = 0
    shown: int = 0

    @property
    def edits_itself(self) -> bool:
        """Whether the platform has an earlier text of it, which is edited."""
        return self.growing > 0 and self.message_id is not None


class Head(NamedTuple):
    """The first message of a chat that waits."""

    delivery_id: str
    chat: str


class Claimed(NamedTuple):
    """A message that one host works on under `token`."""

    delivery: Delivery
    step: Step
    token: str


def delivery_of(row: Row) -> Delivery:
    """Return a message as its row has it."""
    return from_row(
        row,
        Delivery,
        outbound=_bodies.decode(row["body"]),
        maybe_twice=bool(row["maybe_twice"]),
        perhaps_sent=bool(row["perhaps_sent"]),
        result=None if row["result"] is None else msgspec.json.decode(row["result"]),
    )
