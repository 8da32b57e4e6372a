"""A state is kept only if no event before it is missing; what is remembered for that is bounded."""

from __future__ import annotations

from hostler.domain.state_order import MAX_REFUSED, NOTHING, StateOrder


def test_a_state_waits_for_each_refused_event_before_it() -> None:
    order = StateOrder()
    first, second, third = order.came(), order.came(), order.came()
    order.refused("a", first)
    order.refused("b", second)
    assert order.next(third, "third") is NOTHING
    assert order.next(order.settled("a", order.came()), "first") is NOTHING
    assert order.next(order.settled("b", order.came()), "second") == "third"
    assert order.next(order.came()) is NOTHING


def test_a_state_before_a_refused_event_is_kept() -> None:
    order = StateOrder()
    first, second = order.came(), order.came()
    order.refused("b", second)
    assert order.next(first, "first") == "first"


def test_past_the_bound_no_state_is_kept_any_more() -> None:
    order = StateOrder()
    names = [f"e{number}" for number in range(MAX_REFUSED + 1)]
    for name in names:
        order.refused(name, order.came())
    for name in names:
        order.settled(name, order.came())
    assert order.is_behind(order.came())
    assert order.next(order.came(), "state") is NOTHING
