"""Views of a pause: which of its calls are over with others."""

from __future__ import annotations

import pytest

from hostler.domain.pause_views import CallView, PauseView, over_with

A, B, C = "abc"


def pause(**decided: float | None) -> PauseView:
    """A pause whose calls were decided at these times; None: not yet."""
    calls = [
        CallView(
            call_id=name, kind="approval", title="?", tool="t", args={}, args_hash="h", args_schema=None,
            result_schema=None, fields=[], actions=[], editable=False, locked=[], may_decide=True,
            decision="undecided" if at is None else "approved", execution="none", expires_at=None,
            approvals_needed=1, decided_at=at,
        )
        for name, at in decided.items()
    ]  # fmt: skip
    return PauseView(
        id="p", run_id="r", segment=1, revision=1, status="open", form="implicit", agent="a",
        conversation_id=None, requester=None, created_at=1.0, expires_at=None, calls=calls,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("decided", "own", "over"),
    [
        ({A: None, B: None}, {A, B}, {A, B}),
        ({A: None, B: None}, {A}, {A}),
        # the last one of several, and the same decision once more
        ({A: None, B: 2.0}, {A}, {A, B}),
        ({A: 3.0, B: 2.0}, {A}, {A, B}),
        # one of several, and the same once more when all were decided
        ({A: None, B: 2.0, C: None}, {A}, {A}),
        ({A: 3.0, B: 2.0, C: 4.0}, {A}, {A}),
        ({A: 3.0, B: 2.0, C: 4.0}, {C}, {A, B, C}),
    ],
)
def test_calls_are_over_once_the_last_of_a_pause_is_decided(
    decided: dict[str, float | None], own: set[str], over: set[str]
) -> None:
    assert over_with(pause(**decided), own) == over
