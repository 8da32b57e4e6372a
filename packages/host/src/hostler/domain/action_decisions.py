"""Whether a run may have an action carried out: runner, agent, actor and channel all have to allow it. Pure.

Runner, agent and actor are frozen in the run's grant. What a channel can do is looked at when the action is
asked for. A runner that may not use an action learns nothing about channels.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Literal

import msgspec

from hostler.domain.action_actors import Causer, causer_of, channel_of
from hostler.domain.agents import ResourcePolicy
from hostler.domain.approvers import ApprovalRule, ToolApprovalPolicy
from hostler.domain.events import Event
from hostler.domain.name_patterns import best_match, matches
from hostler.domain.platform_actions import PLATFORM_ACTIONS, PlatformAction
from hostler.domain.record import Record
from hostler.domain.suggestions import did_you_mean
from hostler_protocol.errors import InvalidArgumentError

Verdict = Literal["allowed", "needs_approval", "refused", "unsupported"]


class ActionPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the event of a run is about: the target of its actions where they name none."""

    channel: str
    chat_id: str | None = None
    thread_id: str | None = None
    message_id: str | None = None
    request_id: str | None = None

    def of(self, name: str) -> str | None:
        """Return one field of a target."""
        found: str | None = getattr(self, name, None)
        return found


class ActionRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run's grant says of actions. `permitted`: of the runner's manifest; `allowed`: of the agent.

    `refused_actor`: the actions that whoever caused the event may not have carried out. `place` is None if
    the event came through no channel.
    """

    permitted: list[str] = []
    allowed: list[str] = []
    anywhere: bool = False
    refused_actor: list[str] = []
    place: ActionPlace | None = None


class ChannelActions(Record):
    """A channel when an action is asked for. `supported`: by its plugin; `allowed`: patterns of its entry,
    None: all."""

    supported: frozenset[str] = frozenset()
    allowed: list[str] | None = None


class ActionDecision(Record):
    """`reason`: a sentence without its full stop, of what is not allowed. `arguments`: with the whole target.

    `elsewhere`: the target is not the run's own chat, where the bot must have had a conversation if it
    `speaks` there.
    """

    verdict: Verdict
    reason: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    elsewhere: bool = False

    @property
    def channel(self) -> str | None:
        """The channel that carries it out."""
        return self.arguments.get("channel")


def action_rules_of(
    policy: ResourcePolicy, permitted: list[str], event: Event, causer: Causer | None = None
) -> ActionRules:
    """Return what a grant says of actions. `causer`: who caused the event; None: what it says by itself."""
    causer = causer_of(event) if causer is None else causer
    return ActionRules(
        permitted=permitted,
        allowed=policy.allowed_actions or [],
        anywhere=policy.actions_anywhere,
        refused_actor=_refused_actor(policy, causer) if policy.action_actors else [],
        place=place_of(event),
    )


def _refused_actor(policy: ResourcePolicy, causer: Causer) -> list[str]:
    """Return the actions that whoever caused the event may not have carried out."""
    return [
        name
        for name in PLATFORM_ACTIONS
        if (pattern := best_match(policy.action_actors, name)) is not None
        and not causer.is_among(policy.action_actors[pattern])
    ]


def granted_actions(rules: ActionRules) -> frozenset[str]:
    """Return the actions that runner, agent and actor allow."""
    if not rules.permitted or not rules.allowed:  # as for most runs, each of which asks
        return frozenset()
    return frozenset(name for name in PLATFORM_ACTIONS if refusal(name, rules) is None)


def place_of(event: Event) -> ActionPlace | None:
    """Return what an event is about, if a channel brought it: any other event may state what it likes."""
    channel, delivery = channel_of(event), event.envelope.delivery
    if channel is None:
        return None
    target = delivery.reply_target if delivery is not None else None
    if not isinstance(target, dict) or target.get("channel") != channel:
        target = {}
    subject = event.envelope.subject
    request = event.envelope.event_type == "friend.request_received" and subject is not None
    return ActionPlace(
        channel=channel,
        chat_id=target.get("chat_id"),
        thread_id=target.get("thread_id"),
        message_id=target.get("reply_to"),
        request_id=subject.subject_id if request and subject is not None else None,
    )


def refusal(action: str, rules: ActionRules) -> str | None:
    """Return why runner, agent or actor do not allow an action, or None."""
    if not _any(rules.permitted, action):
        return f"the runner's manifest does not ask for action {action!r:.80}"
    if not _any(rules.allowed, action):
        return f"the agent's policy does not allow action {action!r:.80}"
    if action not in PLATFORM_ACTIONS:
        return f"there is no action {action!r:.80}; {did_you_mean(action, PLATFORM_ACTIONS)}"
    if action in rules.refused_actor:
        return f"who caused the event may not have {action!r:.80} done"
    return None


def decide(
    name: str,
    arguments: Mapping[str, Any],
    rules: ActionRules,
    approvals: Container[str],
    channels: Mapping[str, ChannelActions],
) -> ActionDecision:
    """Decide on an action whose arguments fit its schema. InvalidArgumentError: its target is not complete.

    `approvals`: the tools that need approval, as the grant has them; `channels`: those of the workspace that
    are configured and enabled.
    """
    if (why := refusal(name, rules)) is not None:
        return ActionDecision("refused", why)
    action = PLATFORM_ACTIONS[name]
    whole = _with_own(action, arguments, rules.place)
    if "channel" not in whole:
        text = "the event of this run came through no channel: name one in target.channel"
        return ActionDecision("unsupported", text, whole)
    elsewhere = _is_elsewhere(action, whole, rules.place)
    if elsewhere and not rules.anywhere:
        text = "the target is not the chat of this run: that takes actions_anywhere in the agent's policy"
        return ActionDecision("refused", text, whole, elsewhere)
    missing = [field for field in action.needs if field not in whole]
    if missing:
        raise InvalidArgumentError(f"{name}: target.{missing[0]} is missing, and the event has none")
    verdict, text = _by_channel(name, whole["channel"], channels.get(whole["channel"]))
    if verdict == "allowed" and action.tool_name in approvals:
        verdict = "needs_approval"
    return ActionDecision(verdict, text, whole, elsewhere)


def _by_channel(name: str, channel: str, found: ChannelActions | None) -> tuple[Verdict, str]:
    if found is None:
        return "unsupported", f"there is no channel {channel!r:.100}"
    if name not in found.supported:
        return "unsupported", f"channel {channel!r:.100} cannot do {name}"
    if found.allowed is not None and not _any(found.allowed, name):
        return "refused", f"the entry of channel {channel!r:.100} does not allow {name}"
    return "allowed", ""


def approvals_of_actions(policy: ResourcePolicy, granted: Iterable[str]) -> dict[str, ToolApprovalPolicy]:
    """Return the approval policy of each granted action that needs approval, by the name of its tool.

    A dangerous one does, unless `actions_without_approval` has it; for any other the rules for tools decide.
    """
    found = {}
    for name in granted:
        action = PLATFORM_ACTIONS[name]
        pattern = best_match(policy.tool_approval, action.tool_name)
        rule: ApprovalRule | ToolApprovalPolicy = (
            "never" if pattern is None else policy.tool_approval[pattern]
        )
        stated = ToolApprovalPolicy(approval=rule) if isinstance(rule, str) else rule
        if asks_by_itself(policy, action) and stated.approval == "never":
            stated = msgspec.structs.replace(stated, approval="required")
        if stated.approval != "never":
            found[action.tool_name] = stated
    return found


def asks_by_itself(policy: ResourcePolicy, action: PlatformAction) -> bool:
    """Whether an action needs approval because of its risk."""
    return action.risk == "dangerous" and not _any(policy.actions_without_approval, action.name)


def _with_own(
    action: PlatformAction, arguments: Mapping[str, Any], place: ActionPlace | None
) -> dict[str, Any]:
    """Return the arguments with what the event of the run says of the target."""
    whole = {name: value for name, value in arguments.items() if value is not None}
    if place is None or whole.get("channel", place.channel) != place.channel:
        return whole
    whole["channel"] = place.channel
    same_chat = whole.get("chat_id", place.chat_id) == place.chat_id
    for name in action.own:
        if name not in whole and (name != "message_id" or same_chat) and (own := place.of(name)) is not None:
            whole[name] = own
    if same_chat and "thread_id" in action.target and place.thread_id is not None:
        whole.setdefault("thread_id", place.thread_id)
    if action.name == "message.forward" and place.chat_id is not None:
        whole.setdefault("to_chat_id", place.chat_id)
    return whole


def _is_elsewhere(action: PlatformAction, whole: Mapping[str, Any], place: ActionPlace | None) -> bool:
    if place is None or action.wide or whole["channel"] != place.channel:
        return True
    if action.target == ("request_id",):
        return place.request_id is None or whole.get("request_id") != place.request_id
    chats = [whole.get("chat_id"), whole.get("to_chat_id", place.chat_id)]
    return place.chat_id is None or any(chat != place.chat_id for chat in chats)


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)
