"""`ServiceRunner`, the base of runners of services, and `Turn`, one run of it."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from hostler_sdk.context import RunContext
from hostler_sdk.errors import HostError
from hostler_sdk.results import Result, failed, state_updated
from hostler_sdk.runner import Runner
from hostler_sdk.services.answer import STATE_OF_SERVICE, STATE_PREFIX, Answer
from hostler_sdk.services.failures import ServiceFailure
from hostler_sdk.services.files import InputFile, read_files
from hostler_sdk.services.form import Form
from hostler_sdk.services.items import Item, Parser
from hostler_sdk.services.limits import STOP_SECONDS
from hostler_sdk.services.request import Request
from hostler_sdk.services.sse import SseParser
from hostler_sdk.types import Decision

if TYPE_CHECKING:
    from hostler_sdk.services.http import Reply, ServiceHttp

SENT = STATE_PREFIX + "sent_by_run"
"""State of the conversation: the last run that has sent its message to the service."""
ASSETS = "assets"
MAX_MARGIN_SECONDS = 1.0
STEP, ATTEMPT = "step", "attempt"
"""Of a pause's state: how many messages were sent, and the attempt that paused."""
StopRequest = Callable[[str, Mapping[str, str]], Request]
Settle = Callable[[Answer], Awaitable[Iterable[Item]]]
Source = Callable[[Answer], AsyncGenerator[Item, None]]
Stop = Callable[[Answer], Awaitable[None]]


class Turn:
    """One run: its message and settings, and the way to the service."""

    def __init__(self, ctx: RunContext, service: str, title: str, stack: AsyncExitStack) -> None:
        self.ctx = ctx
        self.form = Form(ctx.config)
        self.service = service
        self.title = title
        self._stack = stack
        self._files: list[InputFile] | None = None
        self._has_paused = False

    # -- the message -----------------------------------------------------------------------------

    @property
    def has_state(self) -> bool:
        """Whether state of the conversation can be kept."""
        has_conversation = (
            self.ctx.conversation is not None and self.ctx.conversation.conversation_id is not None
        )
        return has_conversation and self.ctx.context.available_apis.state

    @property
    def user(self) -> str:
        """The id by which the service knows the user: one per conversation, which belongs to it there."""
        conversation, actor = self.ctx.conversation, self.ctx.actor
        found = conversation and (conversation.conversation_id or conversation.launcher_id)
        return found or (actor and actor.actor_id) or "hostler"

    async def files(self) -> list[InputFile]:
        """Read the files of the message. Raises ServiceFailure."""
        if self._files is None:
            self._files = await read_files(self.ctx)
        return self._files

    async def text(self, without: str = "") -> str:
        """Return the text of the message. `without`: used for a message that has files only.

        Raises ServiceFailure if there is neither.
        """
        if text := self.ctx.input.text.strip():
            return text
        if not (files := await self.files()):
            raise ServiceFailure("empty_input", f"the message is empty; {self.title} needs a text")
        return without or ", ".join(file.name for file in files)

    def session(self, name: str) -> str | None:
        """Return the service's id of this conversation, if it is known.

        The host puts its own id into `external.conversation_id` until the runner sets it: that one is none.
        """
        value = self.ctx.state.conversation.get(STATE_PREFIX + name)
        own = self.ctx.conversation and self.ctx.conversation.conversation_id
        return value if isinstance(value, str) and value and value != own else None

    async def keep_session(self, name: str, value: str) -> None:
        """Keep the service's id of this conversation for the next message."""
        if self.has_state:
            await self.ctx.emit(state_updated("conversation", STATE_PREFIX + name, value))

    async def lost_session(self, name: str, failure: ServiceFailure) -> ServiceFailure:
        """Forget a conversation that the service no longer has, and return the failure that says so."""
        await self.keep_session(name, "")
        return ServiceFailure(
            failure.what,
            f"{failure.text}. {self.title} no longer has this conversation: the next message begins a new "
            "one",
            retryable=True,
            status=failure.status,
        )

    def assets(self) -> dict[str, str]:
        """Return the way back to this run's data as an input of the service: name and JSON text."""
        given = self.ctx.runtime.metadata.get(ASSETS)
        if not self.form.flag("assets-enabled") or not isinstance(given, dict):
            return {}
        name = self.form.text("assets-input-name") or "hostler_assets"
        return {name: msgspec.json.encode(given).decode()}

    def secrets(self) -> list[str]:
        """Return what no text may repeat besides the keys: the token of the assets."""
        given = self.ctx.runtime.metadata.get(ASSETS)
        token = given.get("token") if isinstance(given, dict) else None
        return [token] if isinstance(token, str) else []

    # -- what people decided ---------------------------------------------------------------------

    @property
    def question(self) -> Mapping[str, Any] | None:
        """The state of the question for which the run had paused; None: it did not pause."""
        return None if self.ctx.continuation is None else self._kept(STATE_OF_SERVICE)

    @property
    def decisions(self) -> list[Decision]:
        """What people decided since the run paused."""
        return [] if self.ctx.continuation is None else self.ctx.continuation.decisions

    def _kept(self, name: str) -> Any:
        """Return a part of the state of the pause. Raises ServiceFailure if it is none of this version."""
        state = self.ctx.continuation and self.ctx.continuation.state
        if not isinstance(state, dict) or name not in state:
            raise ServiceFailure(
                "unanswered", "the state of the pause is not known to this version; ask again"
            )
        return state[name]

    @property
    def _step(self) -> int:
        """How many messages the run has sent before: one for each pause."""
        return 0 if self.ctx.continuation is None else int(self._kept(STEP))

    # -- the service -----------------------------------------------------------------------------

    @property
    def seconds(self) -> float | None:
        """The time for the answer: `timeout`, a little less than the host's own limit; None: no limit."""
        given = self.form.whole("timeout", 120, 0, 86_400)
        seconds = given - min(MAX_MARGIN_SECONDS, given / 10) if given else None
        if self.ctx.deadline is None:
            return seconds
        left = max(0.0, self.ctx.deadline - time.time())
        left -= min(MAX_MARGIN_SECONDS, left / 10)
        return left if seconds is None else min(seconds, left)

    async def http(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        secrets: Collection[str] = (),
        setting: str = "base-url",
        key_setting: str = "api-key",
    ) -> ServiceHttp:
        """Return the client for a service's address; it is closed with the run."""
        from hostler_sdk.services.http import ServiceHttp  # noqa: PLC0415  only requests need httpx

        self.form.flag("remove-think")  # a setting that is wrong is named before anything is sent
        client = ServiceHttp(
            self.title,
            base_url,
            headers=headers,
            secrets=[*secrets, *self.secrets()],
            setting=setting,
            key_setting=key_setting,
        )
        return await self._stack.enter_async_context(client)

    async def send(
        self,
        http: ServiceHttp,
        request: Request,
        parser: Parser,
        *,
        stop: StopRequest | None = None,
        settle: Settle | None = None,
    ) -> None:
        """Send the message, and make results of the answer. Raises ServiceFailure.

        `stop` builds the request that ends the service's work, from its task and the ids of the conversation;
        it is sent when the run is cancelled, out of time or cannot use the answer. `settle` is called when
        the stream ended without an item Done, and returns further items: it can ask the service.
        """

        async def source(answer: Answer) -> AsyncGenerator[Item, None]:
            async with http.open(request) as reply:
                async with aclosing(self._items(http, reply, parser)) as items:
                    async for item in items:
                        yield item
                if settle is not None:
                    for item in await settle(answer):
                        yield item

        async def stopped(answer: Answer) -> None:
            if stop is not None and answer.task is not None:
                request = stop(answer.task, answer.sessions)
                await self._told(http, request, f"{self.title} could not be told to stop")

        await self.relay(http, source, stop=stopped)

    async def relay(self, http: ServiceHttp, source: Source, *, stop: Stop | None = None) -> None:
        """Make results of the items of `source`, which sends the message. Raises ServiceFailure.

        For a service whose library makes the requests; `send` is for all others. No text of a failure holds
        a secret of `http`. `stop` ends the service's work, within STOP_SECONDS.
        """
        answer = Answer(self.title, remove_think=self.form.flag("remove-think"), keeps_state=self.has_state)
        await self.send_once()
        try:
            async with aclosing(source(answer)) as items:
                async for item in items:
                    await self._emit(answer.take(item))
                    if answer.is_done:
                        break
            self._has_paused = answer.asked is not None
            await self._emit(answer.end({STEP: self._step + 1, ATTEMPT: self.ctx.attempt}))
        except ServiceFailure as failure:
            if failure.what != "service_error":  # else its work is over
                await self._stop(answer, stop)
            raise ServiceFailure(
                failure.what, http.without_secrets(failure.text), failure.retryable, failure.status
            ) from None
        except asyncio.CancelledError:
            await self._stop(answer, stop)
            raise

    async def _items(self, http: ServiceHttp, reply: Reply, parser: Parser) -> AsyncGenerator[Item, None]:
        if isinstance(parser, SseParser) and not reply.is_events:
            if reply.content_type != "application/json":
                raise ServiceFailure(
                    "response_invalid",
                    f"{self.title} answered {reply.content_type or 'without a type'} where a stream of "
                    "events was expected; check the address in the settings",
                )
            for item in parser.body(http.decoded(await http.body(reply))):
                yield item
            return
        async for piece in reply.pieces:
            for item in parser.feed(piece):
                yield item
        for item in parser.finish():
            yield item

    async def _emit(self, results: Iterator[Result]) -> None:
        for result in results:
            await self.ctx.emit(result)

    async def send_once(self) -> None:
        """Note that this run sends its message. Raises ServiceFailure if an earlier attempt did.

        A service does not know a request that comes twice, and would answer, act and charge again.
        """
        first = 1 if self.ctx.continuation is None else int(self._kept(ATTEMPT)) + 1
        note = f"{self.ctx.run_id}/{self._step}" if self._step else self.ctx.run_id
        if self.ctx.attempt > first:
            try:
                is_new = self.has_state and await self.ctx.states.get("conversation", SENT) != note
            except HostError as error:
                if error.code in ("deadline_exceeded", "cancelled"):
                    raise
                is_new = False
            if not is_new:
                raise ServiceFailure(
                    "already_sent",
                    f"the run was interrupted after its message may have gone to {self.title}, which cannot "
                    "tell a repeated message from a new one. It was not sent again: look there for the "
                    "answer, or ask again",
                )
        if self.has_state:
            try:
                await self.ctx.states.set("conversation", SENT, note)
            except HostError as error:
                if error.code in ("deadline_exceeded", "cancelled"):
                    raise
                self.ctx.log(f"the message is sent without a note of it: {error.message}", "warning")

    async def discard(self, http: ServiceHttp, request: Request) -> None:
        """Remove the service's conversation by this request if nobody can go on with it."""
        if not self.has_state and not self._has_paused:
            await self._told(http, request, f"{self.title} keeps a conversation that is over")

    async def _stop(self, answer: Answer, stop: Stop | None) -> None:
        if stop is not None and not answer.is_done:
            await stop(answer)

    async def _told(self, http: ServiceHttp, request: Request, otherwise: str) -> None:
        try:
            async with asyncio.timeout(STOP_SECONDS), http.open(request):
                pass
        except (ServiceFailure, TimeoutError) as error:
            self.ctx.log(f"{otherwise}: {error or 'no answer'}", "warning")


class ServiceRunner(Runner):
    """Base of runners of a remote service.

    Derived classes state `service`, the first half of their codes, and `title`, its name for people, and
    implement `serve`. The form should have `timeout` (seconds; 0: none) and may have `remove-think`,
    `assets-enabled` and `assets-input-name`.
    """

    service: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    async def serve(self, turn: Turn) -> None:
        """Serve one message. Raises ServiceFailure to end the run."""

    async def run(self, ctx: RunContext) -> Any:
        """Serve one event. Every failure of the service ends the run with a code and a text."""
        try:
            async with AsyncExitStack() as stack:
                turn = Turn(ctx, self.service, self.title, stack)
                async with asyncio.timeout(turn.seconds) as limit:
                    await self.serve(turn)
        except ServiceFailure as failure:
            await self._fail(ctx, failure)
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"{self.title} did not answer in time; raise config `timeout`, or let it do less"
            await self._fail(ctx, ServiceFailure("timeout", text, retryable=True))

    async def _fail(self, ctx: RunContext, failure: ServiceFailure) -> None:
        await ctx.emit(failed(f"{self.service}.{failure.what}", failure.text, failure.retryable))
