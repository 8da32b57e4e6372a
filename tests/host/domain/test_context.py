"""The context of an attempt: what a surface can do, and the window of the primary model."""

from __future__ import annotations

import msgspec
import pytest

from hostler.domain.agents import DeliveryPolicy
from hostler.domain.context import Position, build_context
from hostler_protocol.events import AgentRunContext, AvailableApis, Delivery, EventEnvelope, Input
from hostler_protocol.grants import ModelResource, Resources

SURFACE = Delivery(surface="web", reply_target={"to": "ann"}, supports_streaming=True, max_message_size=1_000)


def context(
    *,
    policy: DeliveryPolicy | None = None,
    delivery: Delivery | None = SURFACE,
    models: dict[str, int | None] | None = None,
    primary: str | None = None,
    source: str = "api",
) -> AgentRunContext:
    granted = [
        ModelResource(model_id=name, context_window_tokens=size) for name, size in (models or {}).items()
    ]
    envelope = EventEnvelope(
        event_type="message.received",
        source=source,
        delivery=delivery,
        data={"params": 1},
        input=Input(text="x"),
    )
    return build_context(
        run_id="r1",
        attempt=1,
        envelope=envelope,
        given=Input(text="x"),
        resources=Resources(models=granted),
        primary_model=primary,
        apis=AvailableApis(),
        position=Position(1, 2, "cursor", True),
        state={"actor": {"k": 1}},
        config={},
        host_version="1",
        trace_id="t",
        deadline_at=None,
        policy=policy or DeliveryPolicy(),
    )


@pytest.mark.parametrize(
    ("policy", "streaming", "replies", "size"),
    [
        (DeliveryPolicy(), True, True, 1_000),
        (DeliveryPolicy(enable_streaming=False), False, True, 1_000),
        (DeliveryPolicy(enable_reply=False), True, False, 1_000),
        (DeliveryPolicy(max_message_size=10), True, True, 10),
        (DeliveryPolicy(max_message_size=2_000), True, True, 1_000),
    ],
)
def test_the_policy_narrows_what_the_surface_can_do(
    policy: DeliveryPolicy, streaming: bool, replies: bool, size: int
) -> None:
    delivery = context(policy=policy).delivery
    assert delivery.supports_streaming is streaming
    assert (delivery.reply_target is not None) is replies
    assert delivery.max_message_size == size


def test_an_event_without_a_surface_gets_the_defaults_of_its_source() -> None:
    delivery = context(delivery=None).delivery
    assert (delivery.surface, delivery.supports_streaming, delivery.max_message_size) == ("api", True, None)


@pytest.mark.parametrize(
    ("models", "primary", "window"),
    [
        ({}, None, None),
        ({"a": 8_000, "b": 4_000}, "a", 8_000),
        ({"a": None, "b": 4_000}, "a", None),
        ({"a": 8_000, "b": 4_000, "c": None}, None, 4_000),
    ],
)
def test_the_window_is_that_of_the_primary_model_or_the_smallest_known(
    models: dict[str, int | None], primary: str | None, window: int | None
) -> None:
    found = context(models=models, primary=primary).runtime.metadata
    assert found == ({} if window is None else {"model_context_window_tokens": window})


def test_an_unknown_source_is_a_platform_and_parameters_are_the_adapters() -> None:
    made = context(source="a chat service")
    assert (made.trigger.source, made.event.source) == ("platform", "a chat service")
    assert made.adapter is not None
    assert made.adapter.extra == {"params": 1}
    assert msgspec.to_builtins(made.state)["actor"] == {"k": 1}
