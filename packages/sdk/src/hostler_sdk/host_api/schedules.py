"""`ctx.schedules`: reminders and repeated tasks of the run's own conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler_protocol.calls import RunSchedule
from hostler_sdk.host_api.port import Group, stated


class Schedules(Group):
    """`ctx.schedules`: reminders and repeated tasks of the run's own conversation.

    At its time each sends an event `schedule.triggered` with `text` to this agent, in this conversation and
    thread and for the actor of this run; answers go where those of this run go. Needs the permissions
    `schedules: [create, list, delete]`, and an agent whose policy says `allow_schedules: true`; else
    Unauthorized.
    """

    async def create(
        self,
        text: str | None = None,
        *,
        at: str | None = None,
        delay: float | None = None,
        every: float | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        start: str | None = None,
        end: str | None = None,
        name: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> RunSchedule:
        """Make one, and return it with its `name` and `next_at` (UTC epoch seconds).

        Exactly one of `at` (a time like `2026-12-01T09:30`), `delay` (seconds from now), `every` (seconds, at
        least 300) and `cron` (five fields). Times are of `timezone` unless they have an offset; without one,
        UTC. `name` is one of this conversation's. The same call, made again by a later attempt of this run,
        returns the one that is there.

        Conflict: the name is in use, or there are too many (`.error.details["reason"]` is `limit`).
        RateLimited: too many in a short time. InvalidArgument: its times are wrong, or it would never fire.

            await ctx.schedules.create("The tea is ready.", delay=240)
        """
        reply: RunSchedule = await self._host.call(
            "schedule.create",
            stated(
                name=name,
                at=at,
                delay=delay,
                every=every,
                cron=cron,
                timezone=timezone,
                start=start,
                end=end,
                text=text,
                data=data,
            ),
        )
        return reply

    async def list(self) -> list[RunSchedule]:
        """Return those that fire again, by name: at most 20."""
        items: list[RunSchedule] = (await self._host.call("schedule.list", {})).items
        return items

    async def delete(self, name: str) -> bool:
        """Remove one by its name. Return whether there was one that would have fired."""
        deleted: bool = (await self._host.call("schedule.delete", {"name": name})).deleted
        return deleted
