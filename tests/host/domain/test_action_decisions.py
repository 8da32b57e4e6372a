"""Actions: allowed only if runner, agent, actor and channel all allow them; the rest is told apart."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.action_actors import causer_of
from hostler.domain.action_decisions import (
    ActionDecision,
    ChannelActions,
    action_rules_of,
    approvals_of_actions,
    decide,
    granted_actions,
    place_of,
)
from hostler.domain.agents import ResourcePolicy
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.events import Event
from hostler.domain.platform_actions import (
    ACTION_OF_TOOL,
    PLATFORM_ACTIONS,
    TARGET_FIELDS,
    arguments_of,
    split_arguments,
)
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import Actor, Delivery, Subject
from support.grants import event_of

CHAT = {"channel": "chat", "chat_id": "c", "thread_id": None, "reply_to": "m7"}


def from_chat(actor: str = "ada", **fields: Any) -> Event:
    """An event that channel `chat` brought."""
    given = {"delivery": Delivery(surface="test", reply_target=CHAT), **fields}
    event = event_of(**given, actor_id=None)
    envelope = msgspec.structs.replace(event.envelope, actor=Actor(actor_id=actor))
    return msgspec.structs.replace(event, envelope=envelope, requester="channel:chat")


def with_roles(event: Event, *roles: str) -> Event:
    """An event whose sender has roles."""
    return msgspec.structs.replace(event, requester_roles=roles)


def decided(
    name: str,
    target: dict[str, Any] | None = None,
    *,
    policy: ResourcePolicy | None = None,
    permitted: list[str] | None = None,
    event: Event | None = None,
    channels: dict[str, ChannelActions] | None = None,
    **payload: Any,
) -> ActionDecision:
    policy = policy or ResourcePolicy(allowed_actions=["*"])
    asks, event = ["*"] if permitted is None else permitted, event or from_chat()
    rules = action_rules_of(policy, asks, event, causer_of(event, roles=["admin"]))
    approvals = approvals_of_actions(policy, granted_actions(rules))
    everything = {"chat": ChannelActions(frozenset(PLATFORM_ACTIONS))}
    arguments = {**(target or {}), **payload}
    return decide(name, arguments, rules, approvals, everything if channels is None else channels)


# -- the matrix -------------------------------------------------------------------------------------------

RUNNERS = {"no": [], "other": ["file.send"], "exact": None, "pattern": ["*"]}
AGENTS = {"none": None, "other": ["file.send"], "exact": True, "pattern": ["*"]}
ACTORS = {
    "open": {},
    "named": {"*": ["person:chat/ada"]},
    "role": {"*": ["role:admin"]},
    "another": {"*": ["person:chat/bob"]},
    "another role": {"*": ["role:owner"]},
}
CHANNELS = ["absent", "unable", "closed", "open"]
RISKS = {"read": "group.info", "write": "typing.start", "dangerous": "group.leave"}
TARGETS = ["own", "other", "other and anywhere"]
APPROVALS = ["by risk", "waived", "by rule"]


def expected(
    runner: str, agent: str, actor: str, channel: str, risk: str, target: str, approval: str
) -> tuple[str, str]:
    """The verdict, and what the reason is about, from the words of the table alone."""
    if runner in {"no", "other"}:
        return "refused", "manifest"
    if agent in {"none", "other"}:
        return "refused", "agent's policy"
    if actor.startswith("another"):
        return "refused", "who caused the event"
    if target == "other":
        return "refused", "actions_anywhere"
    if channel in {"absent", "unable"}:
        return "unsupported", "channel"
    if channel == "closed":
        return "refused", "entry of channel"
    if approval == "by rule" or (risk == "dangerous" and approval == "by risk"):
        return "needs_approval", ""
    return "allowed", ""


MATRIX = list(product(RUNNERS, AGENTS, ACTORS, CHANNELS, RISKS, TARGETS, APPROVALS))


def test_the_matrix_of_runner_agent_actor_channel_and_risk() -> None:
    seen = set()
    for row in MATRIX:
        runner, agent, actor, channel, risk, target, approval = row
        name = RISKS[risk]
        tool = PLATFORM_ACTIONS[name].tool_name
        allowed = AGENTS[agent]
        policy = ResourcePolicy(
            allowed_actions=[name] if allowed is True else allowed,  # type: ignore[arg-type]
            action_actors=ACTORS[actor],
            actions_anywhere=target == "other and anywhere",
            actions_without_approval=[name] if approval == "waived" else [],
            tool_approval={tool: "required"} if approval == "by rule" else {},
        )
        entry = {
            "absent": {},
            "unable": {"chat": ChannelActions(frozenset({"file.send"}))},
            "closed": {"chat": ChannelActions(frozenset({name}), ["file.*"])},
            "open": {"chat": ChannelActions(frozenset({name}), ["*"])},
        }[channel]
        permitted = RUNNERS[runner]
        found = decided(
            name,
            {} if target == "own" else {"chat_id": "elsewhere"},
            policy=policy,
            permitted=[name] if permitted is None else permitted,
            channels=entry,
        )
        verdict, about = expected(*row)
        assert (found.verdict, about in found.reason) == (verdict, True), (row, found)
        assert bool(found.reason) is (verdict in {"refused", "unsupported"}), row
        seen.add(found.verdict)
    assert seen == {"allowed", "needs_approval", "refused", "unsupported"}
    assert len(MATRIX) == 8_640


def test_a_run_without_the_permission_learns_nothing_of_channels() -> None:
    for channels in ({}, {"chat": ChannelActions()}, {"chat": ChannelActions(frozenset({"group.info"}))}):
        policy = ResourcePolicy(allowed_actions=["typing.start"])
        found = decided("group.info", {"channel": "secret"}, policy=policy, channels=channels)
        assert found == decided("group.info", policy=policy)
        outside = decided("group.info", {"channel": "secret"}, channels=channels)
        assert (outside.verdict, "secret" in outside.reason) == ("refused", False)


# -- targets ----------------------------------------------------------------------------------------------


def test_what_a_target_leaves_out_is_that_of_the_event() -> None:
    found = decided("message.react", emoji="+")
    whole = {"channel": "chat", "chat_id": "c", "message_id": "m7", "emoji": "+"}
    assert (found.verdict, found.arguments) == ("allowed", whole)


def test_the_message_of_another_chat_is_never_guessed() -> None:
    policy = ResourcePolicy(allowed_actions=["*"], actions_anywhere=True)
    with pytest.raises(InvalidArgumentError, match=r"target\.message_id is missing"):
        decided("message.react", {"chat_id": "d"}, policy=policy, emoji="+")
    for name in ("message.edit", "message.delete"):
        with pytest.raises(InvalidArgumentError, match=r"target\.message_id is missing"):
            decided(name, text="x")


@pytest.mark.parametrize(
    ("name", "arguments", "inside"),
    [
        ("message.send", {"chat_id": "c"}, True),
        ("message.send", {"chat_id": "C"}, False),
        ("message.send", {"channel": "other", "chat_id": "c"}, False),
        ("message.send", {"chat_id": "c", "thread_id": "t"}, True),
        ("message.forward", {}, True),
        ("message.forward", {"to_chat_id": "d"}, False),
        ("message.forward", {"chat_id": "d", "message_id": "1", "to_chat_id": "c"}, False),
        ("friend.accept", {"request_id": "r"}, False),
        ("platform.call", {"method": "m"}, False),
    ],
)
def test_only_the_own_chat_is_inside(name: str, arguments: dict[str, Any], inside: bool) -> None:
    assert (decided(name, arguments).verdict != "refused") is inside
    anywhere = ResourcePolicy(allowed_actions=["*"], actions_anywhere=True)
    channels = {one: ChannelActions(frozenset(PLATFORM_ACTIONS)) for one in ("chat", "other")}
    assert decided(name, arguments, policy=anywhere, channels=channels).elsewhere is not inside


def test_a_request_of_friendship_may_be_accepted_where_it_came() -> None:
    asked = from_chat(
        event_type="friend.request_received", subject=Subject(subject_type="request", subject_id="r1")
    )
    assert decided("friend.accept", event=asked).arguments == {"channel": "chat", "request_id": "r1"}
    assert decided("friend.accept", {"request_id": "r2"}, event=asked).verdict == "refused"


def test_an_event_that_no_channel_brought_has_no_place() -> None:
    claimed = event_of(delivery=Delivery(surface="test", reply_target=CHAT))
    assert claimed.requester == "user:ada"
    assert place_of(claimed) is None
    assert decided("typing.start", event=claimed).verdict == "unsupported"
    assert decided("typing.start", {"channel": "chat", "chat_id": "c"}, event=claimed).verdict == "refused"
    other = {**CHAT, "channel": "another"}
    borrowed = from_chat(delivery=Delivery(surface="test", reply_target=other))
    assert (place_of(borrowed) or CHAT).chat_id is None  # type: ignore[union-attr]
    assert decided("typing.start", event=borrowed).verdict == "refused"


# -- actors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subjects", "event", "may"),
    [
        (["*"], event_of(), True),
        (["user:user:ada"], event_of(), True),
        (["user:bob"], event_of(), False),
        (["person:chat/ada"], from_chat("ada"), True),
        (["person:chat/ada"], from_chat("bob"), False),
        (["person:other/ada"], from_chat("ada"), False),
        (["person:chat/ada"], event_of(actor_id="ada"), False),  # an actor that anybody may state
        (["user:channel:chat"], from_chat("bob"), True),
        (["role:admin"], with_roles(event_of(), "admin", "desk"), True),
        (["role:admin"], with_roles(event_of(), "desk"), False),
        (["role:admin"], event_of(actor_id="admin"), False),
        (["role:admin"], with_roles(from_chat(), "admin"), False),  # roles of the channel, not of its people
        ([], from_chat("ada"), False),
    ],
)
def test_who_may_cause_an_action(subjects: list[str], event: Event, may: bool) -> None:
    policy = ResourcePolicy(allowed_actions=["*"], action_actors={"member.*": subjects})
    granted = granted_actions(action_rules_of(policy, ["*"], event))
    assert ("member.kick" in granted, "message.send" in granted) == (may, True)


def test_the_best_match_says_who_may_cause_an_action() -> None:
    actors = {"member.*": ["person:chat/ada"], "member.info": ["*"]}
    policy = ResourcePolicy(allowed_actions=["*"], action_actors=actors)
    granted = granted_actions(action_rules_of(policy, ["*"], from_chat("bob")))
    assert {"member.info"} == {name for name in granted if name.startswith("member.")}


def test_what_is_known_of_a_person_of_a_channel_counts_for_that_person_alone() -> None:
    known = causer_of(from_chat("ada"), bound_to="ann", roles=["admin"])
    assert known.is_among(["user:ann"])
    assert known.is_among(["role:admin"])
    assert not known.is_among(["user:ada", "role:ann", "person:chat/ann"])
    nobody = msgspec.structs.replace(from_chat().envelope, actor=None)
    unknown = causer_of(
        msgspec.structs.replace(from_chat(), envelope=nobody), bound_to="ann", roles=["admin"]
    )
    assert not unknown.is_among(["user:ann", "role:admin", "person:chat/None"])
    claimed = causer_of(event_of(actor_id="ada"), bound_to="ann", roles=["admin"])
    assert not claimed.is_among(["user:ann", "role:admin"])


@pytest.mark.parametrize(
    ("subject", "right"),
    [
        ("ada", "expected *, user:NAME, role:NAME or person:CHANNEL/ID"),
        ("user:", "expected *, user:NAME, role:NAME or person:CHANNEL/ID"),
        ("role:", "expected *, user:NAME, role:NAME or person:CHANNEL/ID"),
        ("role: admin", "expected *, user:NAME, role:NAME or person:CHANNEL/ID"),
        ("", "expected *, user:NAME, role:NAME or person:CHANNEL/ID"),
        ("person:ada", "write person:CHANNEL/ID"),
        ("person:chat/", "write person:CHANNEL/ID"),
        ("group:ops", "is for approvals alone: expected *, user:NAME, role:NAME"),
        ("requester", "is for approvals alone: expected *, user:NAME, role:NAME"),
    ],
)
def test_a_subject_that_nobody_is_is_refused_when_the_agent_is_saved(subject: str, right: str) -> None:
    with pytest.raises(ValueError, match=rf"action_actors\[member\.kick\].*{re.escape(right)}"):
        ResourcePolicy(action_actors={"member.kick": [subject]})


# -- approval ---------------------------------------------------------------------------------------------


def test_the_rule_of_a_dangerous_action_is_that_of_its_tool() -> None:
    rule = ToolApprovalPolicy(subjects=["user:boss"], min_approvals=1)
    for stated in (rule, ToolApprovalPolicy(approval="never", subjects=["user:boss"])):
        policy = ResourcePolicy(allowed_actions=["*"], tool_approval={"platform.member_*": stated})
        found = approvals_of_actions(policy, ["member.kick", "member.info"])
        assert found["platform.member_kick"] == rule
    assert list(approvals_of_actions(ResourcePolicy(), PLATFORM_ACTIONS)) == [
        action.tool_name for action in PLATFORM_ACTIONS.values() if action.risk == "dangerous"
    ]


# -- the table --------------------------------------------------------------------------------------------


def test_every_action_is_whole() -> None:
    assert len(ACTION_OF_TOOL) == len(PLATFORM_ACTIONS) == 24
    for action in PLATFORM_ACTIONS.values():
        assert set(action.own) <= set(action.needs) <= set(action.target) <= set(TARGET_FIELDS)
        assert not set(action.payload) & set(TARGET_FIELDS), action.name
        assert set(action.payload_needs) <= set(action.payload)
        assert (action.risk == "read") is (action.effect == "pure"), action.name
        assert action.description.endswith(".")


def test_the_page_has_every_action_as_it_is() -> None:
    page = (Path(__file__).parents[3] / "docs" / "actions.md").read_text()
    for action in PLATFORM_ACTIONS.values():
        target = ", ".join(f"`{name}`" + "?" * (name not in action.needs) for name in action.target)
        needed = action.payload_needs
        payload = ", ".join(f"`{name}`" + "?" * (name not in needed) for name in action.payload)
        assert f"| `{action.name}` | {action.risk} | {target} | {payload} |\n" in page


def test_target_and_payload_are_one_object_and_come_apart_again() -> None:
    edit = PLATFORM_ACTIONS["message.edit"]
    whole = arguments_of(edit, {"message_id": "1", "chat_id": None}, {"text": "x"})
    assert whole == {"message_id": "1", "text": "x"} == arguments_of(edit, "1", {"text": "x"})
    assert split_arguments(whole) == ({"message_id": "1"}, {"text": "x"})
    with pytest.raises(InvalidArgumentError, match=r"target\.mesage_id .*did you mean 'message_id'"):
        arguments_of(edit, {"mesage_id": "1"}, {})
    with pytest.raises(InvalidArgumentError, match=r"payload\.chat_id belongs into the target"):
        arguments_of(edit, None, {"chat_id": "1"})
