"""Every host call in every way to be unauthorised: nothing is open, and the page says so."""

from __future__ import annotations

import pytest

from hostler.domain.grants import OPEN_CALLS
from hostler_protocol.calls import CALLS
from support.call_walk import NEVER_HELD, OVERSIZE, WAYS, WRONG_SCOPE, gated, refusal, walk

pytestmark = pytest.mark.gate("gate-of-calls")

CODES = {
    "not granted": {"unauthorized"},
    "other resource": {"not_found"},
    "other run": {"not_found"},
    "ended run": {"cancelled"},
    "fenced attempt": {"cancelled"},
    "paused run": {"cancelled"},
    "deadline": {"deadline_exceeded"},
    "foreign plugin": {"not_found"},
    "foreign workspace": {"not_found"},
    "wrong scope": {"unauthorized", "not_found"},
    "oversize": {"invalid_argument", "payload_too_large"},
    "over rate": {"rate_limited"},
    "over budget": {"unauthorized"},
}


def test_a_run_with_all_grants_is_let_through() -> None:
    """Otherwise the walk would show nothing."""
    for method in sorted(set(CALLS) - NEVER_HELD):
        assert refusal(method, gated()) == "open", method


@pytest.mark.parametrize("method", sorted(CALLS))
def test_nothing_is_open(method: str) -> None:
    assert {way.name for way in WAYS} == set(CODES)
    for way, code in walk()[method].items():
        if code is None:
            assert next(one for one in WAYS if one.name == way).none, f"{method}: {way} has no reason"
            continue
        expected = CODES[way] | ({"unauthorized"} if method in NEVER_HELD else set())
        assert code in expected, f"{method}: {way}"


def test_where_a_way_does_not_exist_is_decided_for_each_call() -> None:
    """A call that is added takes part in every way, or is named here with what it lacks."""
    missing = {way: {method for method, row in walk().items() if row[way] is None} for way in CODES}
    without_resource = {method for method, call in CALLS.items() if call.resource is None} - {"run.create"}
    assert missing == {
        **{way: set() for way in CODES},
        "not granted": set(OPEN_CALLS),
        "other resource": without_resource,
        "wrong scope": set(CALLS) - set(WRONG_SCOPE),
    }
    named = {"scope", "area", "conversation_id"}
    assert {method for method, call in CALLS.items() if named & set(call.params.__struct_fields__)} <= set(
        WRONG_SCOPE
    ), "a call names a scope, and no other one is tried"
    assert set(OVERSIZE) <= set(CALLS)
