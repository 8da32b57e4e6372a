"""Retention: how long data is kept."""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote

from hostler_protocol._base import Strict
from hostler_protocol.errors import ExpiredError, InvalidArgumentError

MAX_DAYS = 36_500
"""A hundred years."""


class RetentionPolicy(Strict):
    """Days that data is kept; None: forever.

    `deltas`: the pieces of streamed messages in journals (whole messages stay); `journals`: the journals of
    ended runs; `states`: state of conversations without any activity.
    """

    events: float | None = None
    transcripts: float | None = None
    journals: float | None = None
    deltas: float | None = None
    artifacts: float | None = None
    states: float | None = None


class WorkspaceRetention(Strict):
    """Overrides for one workspace; None: the general policy, "forever": without end."""

    events: float | Literal["forever"] | None = None
    transcripts: float | Literal["forever"] | None = None
    journals: float | Literal["forever"] | None = None
    deltas: float | Literal["forever"] | None = None
    artifacts: float | Literal["forever"] | None = None
    states: float | Literal["forever"] | None = None


class Retention(RetentionPolicy):
    """The general policy, and overrides by workspace."""

    workspaces: dict[str, WorkspaceRetention] = {}

    def of(self, workspace_id: str) -> RetentionPolicy:
        """Return the policy of one workspace."""
        own = self.workspaces.get(workspace_id, WorkspaceRetention())
        days: dict[str, float | None] = {}
        for kind in RetentionPolicy.__struct_fields__:
            override = getattr(own, kind)
            days[kind] = (
                None if override == "forever" else getattr(self, kind) if override is None else override
            )
        return RetentionPolicy(**days)


def check_retention(retention: Retention) -> None:
    """Check the range of all days. InvalidArgumentError names the workspace and the kind."""
    _check_days(retention, "retention")
    for workspace_id, own in retention.workspaces.items():
        if not workspace_id:
            raise InvalidArgumentError("retention: workspaces: the name of a workspace is empty")
        _check_days(own, f"retention of workspace {workspace_id!r}")


def _check_days(policy: RetentionPolicy | WorkspaceRetention, where: str) -> None:
    for kind in RetentionPolicy.__struct_fields__:
        days = getattr(policy, kind)
        if isinstance(days, float | int) and not 0 <= days < MAX_DAYS:
            raise InvalidArgumentError(f"{where}: {kind} is {days:g} days; expected 0 to {MAX_DAYS:,}")


class CursorLostError(ExpiredError):
    """The entries after a cursor were dropped. `snapshot`: the address of the run's current state."""

    def __init__(self, run_id: str, counted: Literal["sequence", "position"], after: int) -> None:
        snapshot = f"/v1/runs/{run_id}"
        super().__init__(
            f"{counted} {after} of run {run_id} is no longer kept: read the run at {snapshot}, which has its"
            " messages, and follow its stream from the sequence given there",
            run_id=run_id,
            snapshot=snapshot,
        )


class TimelineLostError(ExpiredError):
    """Some of what follows a cursor of a stream over runs was removed. `snapshot`: what there is now."""

    def __init__(self, conversation_id: str | None) -> None:
        snapshot = "/v1/runs"
        if conversation_id is not None:
            snapshot = f"/v1/conversations/{quote(conversation_id, safe='')}/history"
        super().__init__(
            "some of what follows this cursor is no longer kept: open the stream without a cursor, then read"
            f" {snapshot}, so that nothing is missed",
            snapshot=snapshot,
        )
