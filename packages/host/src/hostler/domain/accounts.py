"""What follows a person from one account on a platform to the next, and which chats are private. Pure.

docs/decisions/what-follows-a-person.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.domain.child_runs import ParentBounds
from hostler.domain.record import Record

MAX_CHATS = 50
"""Other private chats whose history one run is given: each is a query for each of its pages."""


class Identity(NamedTuple):
    """The subject that a person of a channel is.

    `channel_of`: for `person:CHANNEL/ID`, the plugin's channel that CHANNEL is: ids mean other people on
    another platform.
    """

    subject: str
    channel_of: str | None = None


class PrivateChat(msgspec.Struct, frozen=True):
    """A chat of one person and the bot. Its history is what was said after `after_seq`."""

    bot_id: str | None
    conversation_id: str
    after_seq: int = 0


class AcrossAccounts(msgspec.Struct, frozen=True):
    """What a run has of its person's other accounts, part of its grant.

    `state`: its actor scope is the subject's. `history`: that of `chats` belongs to its own.
    """

    subject: str
    channel_of: str | None = None
    state: bool = False
    history: bool = False
    chats: list[PrivateChat] = []


def person_of(across: AcrossAccounts | None) -> Identity | None:
    """Return whose the scope `actor` is; None: it is that of the account."""
    if across is None or not across.state:
        return None
    return Identity(across.subject, across.channel_of)


class Chat(Record, kw_only=True):
    """A chat of a channel as its events show it. `person_id`: the one who writes there, if it is private.

    None: it is, or once was, a group, or several people have written there. `channel_of` as in `Identity`.
    """

    conversation_id: str
    channel: str
    channel_of: str
    bot_id: str | None
    person_id: str | None


class Allowed(NamedTuple):
    """Whether state and history may follow a person, by the agent and by the runs above."""

    state: bool
    history: bool


def allowed_across(spec: AgentSpec, above: ParentBounds | None) -> Allowed:
    """Return what may follow. `above`: the bounds from the runs above; None: no run created it."""
    policy = spec.state_policy
    state = policy.actor_across_accounts and policy.enable_state and "actor" in policy.state_scopes
    history = spec.resource_policy.allow_cross_account_history
    if above is not None:
        state, history = state and above.cross_account_state, history and above.cross_account_history
    return Allowed(state, history)


def across_accounts(
    allowed: Allowed, identity: Identity | None, own: Chat | None, chats: Sequence[PrivateChat]
) -> AcrossAccounts | None:
    """Return what a run has of its person's other accounts, or None.

    `identity`: of the person whom a channel names; None: no channel does. `own`: the run's chat. `chats`: the
    private ones of all accounts of the person with the agent. What was said in private is given in private:
    only a run whose own chat is private is given others.
    """
    if identity is None:
        return None
    is_private = own is not None and own.person_id is not None
    others = [one for one in chats if own is not None and one.conversation_id != own.conversation_id]
    history = allowed.history and is_private
    if not (allowed.state or history):
        return None
    return AcrossAccounts(
        identity.subject,
        identity.channel_of,
        state=allowed.state,
        history=history,
        chats=others[:MAX_CHATS] if history else [],
    )


def noted(before: Chat | None, seen: Chat) -> Chat:
    """Return what is known of a chat after another event. It never becomes private, nor another person's."""
    if before is None:
        return seen
    same = (before.person_id, before.channel_of) == (seen.person_id, seen.channel_of)
    person_id = seen.person_id if same else None
    return Chat(
        conversation_id=seen.conversation_id,
        channel=seen.channel,
        channel_of=seen.channel_of,
        bot_id=seen.bot_id,
        person_id=person_id,
    )
