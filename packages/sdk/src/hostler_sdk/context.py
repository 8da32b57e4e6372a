"""RunContext: the event of a run, and the runner's calls to the host."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal, Protocol

from hostler_protocol.events import AgentRunContext
from hostler_protocol.pausing import Decision, FormField, InteractionAction
from hostler_sdk.host_api import (
    Actions,
    Artifacts,
    Events,
    History,
    HostCalls,
    Knowledge,
    Models,
    OpenDoor,
    Runs,
    Schedules,
    States,
    Steering,
    Storage,
    Tools,
)
from hostler_sdk.host_api.port import stated
from hostler_sdk.inputs import RunInput, run_input
from hostler_sdk.results import LogLevel, Result, log

__all__ = ["Emitter", "RunContext", "RunInput"]


class Emitter(Protocol):
    """Sends the results of a run."""

    cancelled: bool

    async def emit(self, result: Result) -> None:
        """Send a result, in order. Waits for the host's credit."""
        ...

    def post(self, result: Result) -> Awaitable[None]:
        """Send or queue a result without waiting; the returned awaitable waits until it is sent."""
        ...


class RunContext:
    """The event of a run with all that belongs to it, and the Host API in groups.

    The event: `input` (with `text`), `event`, `trigger`, `conversation`, `actor`, `subject`, `delivery`. The
    run: `run_id`, `attempt` (from 1), `config` (values of the runner's form), `resources` (models, tools and
    so on that it may use), `state` (snapshot), `deadline`, `cancelled`, `continuation` (after `paused`). The
    host: `models`, `tools`, `knowledge`, `history`, `events`, `steering`, `artifacts`, `states`, `storage`,
    `runs`, `actions`, `schedules`, `ask`, `log`, and `call` for any other call.
    """

    def __init__(
        self, given: AgentRunContext, host: HostCalls, results: Emitter, door: OpenDoor | None = None
    ) -> None:
        self.given = given
        """The AgentRunContext, as the host sent it."""
        self.run_id = given.run_id
        self.attempt = given.attempt
        self.trigger = given.trigger
        self.event = given.event
        self.conversation = given.conversation
        self.actor = given.actor
        self.subject = given.subject
        self.input = run_input(given.input)
        self.delivery = given.delivery
        self.resources = given.resources
        self.context = given.context
        self.state = given.state
        self.runtime = given.runtime
        self.config = given.config
        self.continuation = given.continuation
        self.adapter = given.adapter
        self.metadata = given.metadata

        self.models = Models(host, door)
        self.tools = Tools(host, door)
        self.knowledge = Knowledge(host)
        self.history = History(host)
        self.events = Events(host)
        self.steering = Steering(host)
        self.artifacts = Artifacts(host)
        self.states = States(host)
        self.storage = Storage(host)
        self.runs = Runs(host)
        self.actions = Actions(host)
        self.schedules = Schedules(host)
        self._host = host
        self._results = results

    @property
    def deadline(self) -> float | None:
        """Time at which the host ends the run, in UTC epoch seconds; None: never."""
        return self.runtime.deadline_at

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled. `asyncio.CancelledError` is raised in its task as well."""
        return self._results.cancelled

    async def emit(self, result: Result) -> None:
        """Send a result, and wait for the host's credit. A generator can yield the result instead."""
        await self._results.emit(result)

    def log(self, text: str, level: LogLevel = "info") -> Awaitable[None]:
        """Write an entry to the run's journal, at most 65,536 characters. Awaiting is optional.

        Raises RateLimited if 1,024 results wait for the host; await the entry to avoid it.
        """
        return self._results.post(log(text, level))

    async def call(self, method: str, **params: Any) -> Any:
        """Make any Host API call by its name, and return its reply.

            reply = await ctx.call("file.get", file_id="terms.pdf")

        Raises HostError if the host refuses it, InvalidArgument for an unknown name or parameter.
        """
        return await self._host.call(method, params)

    async def ask(
        self,
        title: str,
        fields: Sequence[FormField | Mapping[str, Any]] = (),
        actions: Sequence[InteractionAction | Mapping[str, Any] | str] = (),
        expires_in: float | None = None,
        *,
        description: str | None = None,
        kind: Literal["form", "confirmation", "choice"] | None = None,
        fallback_text: str | None = None,
    ) -> Decision:
        """Ask a person a question, and wait for the decision.

        With `fields` it is a form, answered in `.values`; with `actions` a choice, whose name is in
        `.result`; with neither a confirmation. `.decision` is `answered`, `approved`, `denied`, `expired` or
        `cancelled`. `expires_in` is the time people have, in seconds, from 60 to 2,592,000 (30 days); None:
        30 minutes.

        If nobody decides within 20 seconds, the run is parked: later the runner starts again from its
        beginning, and every call it made before is answered from the recording. Raises InvalidArgument for
        another `expires_in`, and for duplicate names of fields, actions or options.

            decision = await ctx.ask("Which size?", fields=[{"name": "size", "type": "number"}])
            yield message(f"Size {decision.values['size']}")
        """
        buttons = [{"name": one} if isinstance(one, str) else one for one in actions]
        params = stated(
            kind=kind or ("form" if fields else "choice" if buttons else "confirmation"),
            title=title,
            fields=list(fields),
            actions=buttons,
            expires_in=expires_in,
            description=description,
            fallback_text=fallback_text,
        )
        decision: Decision = await self._host.call("interaction.request", params)
        return decision
