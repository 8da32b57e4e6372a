"""What the journal of a run has of one call, and what people decided about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hostler.domain.call_checks import CallCheck
from hostler.domain.quotas import REASON as QUOTA_EXCEEDED
from hostler.domain.record import Record
from hostler_protocol.errors import Fault


class Decision(Record):
    """A decision or a vote of people about the call, from the journal. `at` in UTC epoch seconds."""

    at: float
    action: str
    actor: str
    body: dict[str, Any]


class JournalledCall(Record):
    """What the journal has of one call. `position`: of its outcome, or of its intent while it has none.

    `ended`: whether it has an outcome. What a runner carries out itself has no `method`, and `position` 0,
    since the journal has only the decisions about it.
    """

    position: int
    attempt: int
    at: float
    method: str
    call_id: str | None = None
    named: str | None = None
    ended: bool = True
    error: Fault | None = None
    check: CallCheck | None = None
    by_gate: bool = False
    """Whether the gate refused it."""
    given_up: bool = False
    unsupported: str | None = None
    """Why nobody can carry out the platform action that it asked for."""
    inherited: bool = False
    approved_by: str | None = None
    similar_id: str | None = None
    decisions: Sequence[Decision] = ()
    names: Mapping[str, str] = msgspec.field(default_factory=dict)
    """How people are called, by subject."""
    about_budgets: Sequence[Decision] = ()
    """Decisions of people who were asked to add to a budget, so that the call can be made."""

    @property
    def refused_at(self) -> CallCheck | None:
        """The check that refused it, as far as the journal says. A quota does when the call is made."""
        if (
            self.check is None
            and self.error is not None
            and self.error.details.get("reason") == QUOTA_EXCEEDED
        ):
            return "quota"
        return self.check
