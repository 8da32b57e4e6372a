"""The schedules of a scripted host: kept and listed, and never fired."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

from hostler_protocol import calls
from hostler_protocol.ids import digest
from hostler_sdk.errors import Conflict, InvalidArgument

WAYS = ("at", "delay", "every", "cron")
MIN_EVERY_SECONDS = 300
MAX_SCHEDULES = 20

ScheduleParams = calls.ScheduleCreateParams | calls.ScheduleListParams | calls.ScheduleDeleteParams


class Schedules:
    """What the runs of a scripted host have made, by name."""

    def __init__(self) -> None:
        self.made: dict[str, calls.RunSchedule] = {}

    def answer(
        self, params: ScheduleParams
    ) -> calls.RunSchedule | calls.RunScheduleList | calls.DeletedReply:
        """Answer a call. Raises InvalidArgument and Conflict as a host does; any cron is right."""
        match params:
            case calls.ScheduleCreateParams():
                return self._create(params)
            case calls.ScheduleListParams():
                return calls.RunScheduleList(items=[self.made[name] for name in sorted(self.made)])
            case _:
                return calls.DeletedReply(deleted=self.made.pop(params.name, None) is not None)

    def _create(self, params: calls.ScheduleCreateParams) -> calls.RunSchedule:
        ways = [name for name in WAYS if getattr(params, name) is not None]
        if len(ways) != 1:
            raise InvalidArgument(f"it has {ways}: expected exactly one of at, delay, every and cron")
        if params.every is not None and params.every < MIN_EVERY_SECONDS:
            raise InvalidArgument(f"every is {params.every:g}: expected at least {MIN_EVERY_SECONDS} seconds")
        now, next_at, at = time.time(), None, params.at
        if params.delay is not None:
            next_at = float(math.ceil(now + params.delay))
            at = datetime.fromtimestamp(next_at, UTC).isoformat()
        asked = [
            getattr(params, name) for name in params.__struct_fields__ if name not in {"run_id", "alone"}
        ]
        made = calls.RunSchedule(
            name=params.name or f"r-{digest([params.run_id, *asked])[:12]}",
            created_at=now,
            next_at=next_at if params.every is None else now + params.every,
            at=at,
            every=params.every,
            cron=params.cron,
            timezone=params.timezone,
            start=params.start,
            end=params.end,
            text=params.text,
            data=params.data,
        )
        if made.name in self.made:
            raise Conflict(f"there is a schedule {made.name!r} in this conversation: delete it first")
        if len(self.made) >= MAX_SCHEDULES:
            details = {"reason": "limit", "limit": MAX_SCHEDULES, "of": "conversation"}
            raise Conflict(f"there are {MAX_SCHEDULES} schedules, as many as may be", details=details)
        self.made[made.name] = made
        return made
