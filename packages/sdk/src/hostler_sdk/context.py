"""RunContext: everything a runner is given, and its way to the host."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal, Protocol

from hostler_protocol.events import AgentRunContext
from hostler_protocol.pausing import Decision, FormField, InteractionAction
from hostler_sdk.host_api import (
    Artifacts,
    Events,
    History,
    HostCalls,
    Knowledge,
    Models,
    Runs,
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
    """Where the results of a run go."""

    cancelled: bool

    async def emit(self, result: Result) -> None:
        """Send a result in its order; waits while the host has no room for it."""
        ...

    def post(self, result: Result) -> Awaitable[None]:
        """Send without waiting, within a bound; awaiting what it gives waits until it is sent."""
        ...


class RunContext:
    """One event as one run sees it (AgentRunContext), and the Host API grouped by what it serves."""

    def __init__(self, given: AgentRunContext, host: HostCalls, results: Emitter) -> None:
        self.given = given
        """The whole AgentRunContext, as the host sent it."""
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

        self.models = Models(host)
        self.tools = Tools(host)
        self.knowledge = Knowledge(host)
        self.history = History(host)
        self.events = Events(host)
        self.steering = Steering(host)
        self.artifacts = Artifacts(host)
        self.states = States(host)
        self.storage = Storage(host)
        self.runs = Runs(host)
        self._host = host
        self._results = results

    @property
    def deadline(self) -> float | None:
        """When the run's time is over, in UTC epoch seconds; None: never."""
        return self.runtime.deadline_at

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled; its task then gets `asyncio.CancelledError` as well."""
        return self._results.cancelled

    async def emit(self, result: Result) -> None:
        """Send a result from a coroutine (a generator yields it instead); waits for the host's credit."""
        await self._results.emit(result)

    def log(self, text: str, level: LogLevel = "info") -> Awaitable[None]:
        """Write a line to the run's journal. It may be awaited, and needs not be."""
        return self._results.post(log(text, level))

    async def call(self, method: str, **params: Any) -> Any:
        """Make any Host API call by its name, like `prompt.get`, `file.get` or `host.info`."""
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
        """Put a question to a person and wait for the decision; may park the run.

        With `fields` it is a form (answers in `.values`), with `actions` a choice (names may be plain
        text), with neither a confirmation. `expires_in` is how long people have, in seconds, from 60 to
        2,592,000 (30 days); None: 30 minutes. InvalidArgument for another number, and for two fields, two
        actions or two options of one field with the same name.
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
