"""`ctx.runs`: this run, other runs of its conversation, and child runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hostler_protocol.events import Actor, Input
from hostler_protocol.runs import JournalRecord, Page, RunRecord
from hostler_sdk.host_api.port import Group, stated


class Runs(Group):
    """`ctx.runs`: this run, other runs of its conversation, and child runs.

    NotFound: there is no such run, or this run may not see it.
    """

    async def get(self, run_id: str | None = None) -> RunRecord:
        """Return the record of a run; without an id, of this one."""
        reply: RunRecord = await self._host.call("run.get", stated(target_run_id=run_id))
        return reply

    async def list(
        self, statuses: Sequence[str] | None = None, before_cursor: str | None = None, limit: int = 50
    ) -> Page[RunRecord]:
        """Return one page of the runs of this conversation and agent, newest first.

        `statuses` selects among `queued`, `claimed`, `running`, `paused`, `completed`, `failed`, `cancelled`
        and `timeout`. `before_cursor` is the `next_cursor` of the page before. `limit` is at most 100.
        """
        reply: Page[RunRecord] = await self._host.call(
            "run.list", stated(statuses=statuses, before_cursor=before_cursor, limit=limit)
        )
        return reply

    async def events(self, run_id: str | None = None, after: int = 0, limit: int = 50) -> Page[JournalRecord]:
        """Return one page of a run's journal: up to `limit` (at most 100) entries after position `after`."""
        reply: Page[JournalRecord] = await self._host.call(
            "run.events", stated(target_run_id=run_id, after=after, limit=limit)
        )
        return reply

    async def cancel(self, run_id: str | None = None, reason: str | None = None) -> RunRecord:
        """Cancel a run; without an id, this one. Return its record; the run ends a moment later."""
        reply: RunRecord = await self._host.call("run.cancel", stated(target_run_id=run_id, reason=reason))
        return reply

    async def create(
        self,
        agent: str,
        input: str | Input | Mapping[str, Any],  # noqa: A002 - the protocol's name
        *,
        data: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        actor: Actor | Mapping[str, Any] | None = None,
        wait: float | None = None,
    ) -> RunRecord:
        """Start a child run of the named agent, and return its record.

        With `wait`, the call returns when the child has ended, after `wait` seconds at the latest; `output`
        of the record holds what it said. The child inherits deadline and budget, and is cancelled with this
        run. Its agent has to be named in `resource_policy.allowed_agents` of this run's agent. The child acts
        for the actor of this run (`actor` may repeat it, and name no other), in this conversation or in none,
        and its input refers to artifacts that this run may read.

        Unauthorized: this run may create no runs, or names another actor. NotFound: the agent is not allowed
        or does not exist, the conversation is another one, or this run may not see an artifact.

            child = await ctx.runs.create("translator", ctx.input.text, wait=60)
            yield message(child.output.text if child.output else child.status)
        """
        given = {"text": input} if isinstance(input, str) else input
        reply: RunRecord = await self._host.call(
            "run.create",
            stated(
                agent=agent, input=given, data=data, conversation_id=conversation_id, actor=actor, wait=wait
            ),
        )
        return reply
