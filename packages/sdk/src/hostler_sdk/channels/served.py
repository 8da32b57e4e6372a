"""Serve the channels of a plugin on one connection: open them, keep them running, and send for the host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from hostler_protocol.channels import (
    ChannelActed,
    ChannelActParams,
    ChannelCloseParams,
    ChannelEditParams,
    ChannelFindParams,
    ChannelHealth,
    ChannelList,
    ChannelMessage,
    ChannelOpenParams,
    ChannelRequestParams,
    ChannelSendParams,
    ChannelSent,
    ChannelTarget,
    IngestHealthNote,
    Person,
)
from hostler_protocol.errors import (
    ConflictError,
    Fault,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    RateLimitedError,
    RemoteFaultError,
)
from hostler_protocol.frames import MessageId, raw
from hostler_protocol.incoming import Called
from hostler_protocol.limits import MAX_REASON_CHARS
from hostler_protocol.link import Link, LinkError
from hostler_protocol.methods import NoParams
from hostler_protocol.states import State
from hostler_sdk.channels.channel import EDIT_ACTION, Channel, NotSent
from hostler_sdk.channels.withheld import without_fields
from hostler_sdk.errors import Cancelled, HostError, host_error, writable
from hostler_sdk.plugin import OfferedChannel

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
"""Waits before a channel that failed is opened again."""
STEADY_SECONDS = 60.0
"""A channel that ran for so long begins with the shortest wait again."""
CLOSE_SECONDS = 5.0
"""Time for a channel's `close`."""
SENDS_SECONDS = 10.0
"""Time for what is being sent when a channel is closed; the host has waited for it before."""

logger = logging.getLogger("hostler_sdk")


class OpenChannel:
    """A channel that the host has opened, and the task that keeps it running.

    `before`: the task of one with the same id that is being closed: a platform may allow one connection.
    """

    def __init__(self, channel: Channel, wire: ServedChannels, before: asyncio.Task[None] | None) -> None:
        self.channel = channel
        self._before = before
        self._wire = wire
        self._open = False
        self._account: Person | None = None
        self.at_work: set[asyncio.Task[None]] = set()
        """Requests of the host that are being carried out."""
        self.task = asyncio.get_running_loop().create_task(self._keep(), name=f"channel {channel.channel_id}")

    async def _keep(self) -> None:
        if self._before is not None:
            await asyncio.wait([self._before])
            self._before = None
        wait = FIRST_WAIT_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            reason = await self._once()
            self._tell("failed", reason)
            if loop.time() - begun >= STEADY_SECONDS:
                wait = FIRST_WAIT_SECONDS
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    async def _once(self) -> str:
        """Open the channel and let it run; return why it ended."""
        self._tell("connecting", "")
        try:
            self._account = await self.channel.open()
            self._open = True
            self._tell("connected", "", self._account)
            await self.channel.run()
        except (Exception, SystemExit) as error:  # the top of a worker: told to the operator
            logger.error("channel %s failed", self.channel.channel_id, exc_info=error)
            return _text_of(error)
        else:
            return "its run() ended"
        finally:
            self._open = False
            await self._close()

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.channel.close()
        except (Exception, SystemExit) as error:  # the top of a worker: told to the operator
            logger.error("close() of channel %s failed", self.channel.channel_id, exc_info=error)

    def _tell(self, health: ChannelHealth, reason: str, account: Person | None = None) -> None:
        self._wire.tell_health(self.channel.channel_id, health, reason, account)

    def check_open(self) -> None:
        """Raise an error that says that nothing was sent, if the channel is not connected."""
        if not self._open:
            raise RemoteFaultError(
                Fault(
                    code="runtime_error",
                    message="the channel is not connected to its platform; nothing was sent",
                    retryable=True,
                )
            )


class ServedChannels:
    """The channels of one connection. `ended` is called after each end of something at work."""

    def __init__(
        self,
        channels: Mapping[str, OfferedChannel],
        link: Link,
        write: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        self._offered = channels
        self._link = link
        self._write = write
        self._ended = ended
        self._open: dict[str, OpenChannel] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        """The tasks of channels that are being closed."""
        self._asked: dict[MessageId, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def at_work(self) -> bool:
        """Whether a channel is open, or a request is being carried out."""
        return bool(self._open or self._tasks)

    def listed(self) -> ChannelList:
        """Return the answer to `channels/list`."""
        return ChannelList(channels=[raw(offered.manifest) for offered in self._offered.values()])

    # -- requests of the host --------------------------------------------------------------------

    def take(self, request: Called) -> asyncio.Task[None]:
        """Take a `channel/*` request. Raises HostlerError if it cannot be carried out."""
        match request.params:
            case ChannelOpenParams() as params:
                opened = self._begin(params)
                self._write(self._link.reply(request.id, NoParams()))
                return opened.task
            case ChannelCloseParams(channel_id=channel_id):
                opened = self._let_go(self._opened(channel_id))
                return self._start(f"close {channel_id}", self._end(request.id, opened))
            case params:
                opened = self._opened(params.channel_id)
                work = self._start(f"{request.method} {params.channel_id}", self._serve(request, opened))
                opened.at_work.add(work)
                work.add_done_callback(opened.at_work.discard)
                return work

    def _begin(self, params: ChannelOpenParams) -> OpenChannel:
        offered = self._offered.get(params.channel)
        if offered is None:
            known = ", ".join(self._offered)
            raise NotFoundError(f"there is no channel {params.channel!r} here; this plugin offers {known}")
        if params.channel_id in self._open:
            raise ConflictError(f"channel {params.channel_id!r} is open already; close it first")
        channel = offered.kind(params.channel_id, params.config, params.state, self)
        opened = self._open[params.channel_id] = OpenChannel(
            channel, self, self._ending.get(params.channel_id)
        )
        return opened

    def _opened(self, channel_id: str) -> OpenChannel:
        opened = self._open.get(channel_id)
        if opened is None:
            raise NotFoundError(f"channel {channel_id!r} is not open; open it first")
        return opened

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._ended()

    def _let_go(self, opened: OpenChannel) -> OpenChannel:
        """Take no more requests for a channel; the next one with its id begins once it has ended."""
        name, task = opened.channel.channel_id, opened.task
        del self._open[name]
        self._ending[name] = task

        def ended(_: asyncio.Task[None]) -> None:
            if self._ending.get(name) is task:
                del self._ending[name]

        task.add_done_callback(ended)
        return opened

    async def _end(self, id_: MessageId, opened: OpenChannel) -> None:
        await self._stop(opened)
        self._write(self._link.reply(id_, NoParams()))

    async def _stop(self, opened: OpenChannel) -> None:
        """Let what is being sent finish, within a bound, then end the channel.

        It receives until then: the platform's answers to what is sent may come in `run`.
        """
        if opened.at_work:
            await asyncio.wait(opened.at_work, timeout=SENDS_SECONDS)
        opened.task.cancel()
        for work in opened.at_work:
            work.cancel()
        await asyncio.wait([opened.task])

    async def _serve(self, request: Called, opened: OpenChannel) -> None:
        try:
            answer = self._link.reply(request.id, await self._carry_out(request.params, opened))
        except HostlerError as error:
            answer = self._link.refuse(request.id, error)
        except asyncio.CancelledError:  # the host is gone: nobody waits for the answer
            raise
        except (Exception, SystemExit) as error:  # the top of a worker: it becomes the answer
            logger.error("%s of channel %s failed", request.method, opened.channel.channel_id, exc_info=error)
            fault = Fault(code="runtime_error", message=_text_of(error))
            answer = self._link.refuse(request.id, RemoteFaultError(fault))
        self._write(answer)

    async def _carry_out(self, params: Any, opened: OpenChannel) -> Any:
        channel = opened.channel
        match params:
            case ChannelRequestParams():
                opened.check_open()
                return await channel.request(params)
            case ChannelFindParams(key=key, since=since):
                opened.check_open()
                return await channel.find(params.target, params.message, key=key, since=since)
            case ChannelSendParams() | ChannelEditParams() | ChannelActParams():
                opened.check_open()
                return await _attempt(channel, params)
        raise InvalidArgumentError(f"unknown request {type(params).__name__}")

    # -- what channels use -----------------------------------------------------------------------

    async def ask(self, method: str, params: Any) -> Any:
        """Make a request and return its answer. Raises HostError if it is refused or the host is gone."""
        try:
            id_, data = self._link.request(method, params)
        except LinkError as error:
            raise Cancelled(f"{method}: the connection to the host is closed") from error
        except HostlerError as error:
            raise host_error(error) from error
        answer = self._asked[id_] = asyncio.get_running_loop().create_future()
        self._write(data)
        try:
            return await answer
        finally:
            if self._asked.pop(id_, None) is not None and not answer.done():
                self._link.abandon(id_)

    def tell_health(
        self, channel_id: str, health: ChannelHealth, reason: str, account: Person | None
    ) -> None:
        """Send `ingest/health`, as long as there is a host."""
        if self._link.state in (State.READY, State.DRAINING):
            note = IngestHealthNote(
                channel_id=channel_id,
                health=health,
                reason=writable(reason[:MAX_REASON_CHARS]),
                account=account,
            )
            self._write(self._link.notify("ingest/health", note))

    def replied(self, id_: MessageId, reply: Any) -> None:
        """Take the host's answer."""
        if (answer := self._asked.get(id_)) is not None and not answer.done():
            answer.set_result(reply)

    def refused(self, id_: MessageId, error: HostlerError) -> None:
        """Take the host's refusal."""
        if (answer := self._asked.get(id_)) is not None and not answer.done():
            answer.set_exception(host_error(error))

    # -- the end ---------------------------------------------------------------------------------

    def drain(self) -> None:
        """End all channels in order: the host shuts the plugin down."""
        for channel_id, opened in list(self._open.items()):
            self._start(f"close {channel_id}", self._stop(self._let_go(opened)))

    def close(self) -> None:
        """End all channels at once: the host is gone."""
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(Cancelled("the connection to the host was lost"))
        for opened in self._open.values():
            for task in (opened.task, *opened.at_work):
                task.cancel()
        self._open.clear()


async def _attempt(channel: Channel, params: Any) -> Any:
    """Send, edit or act. An exception other than NotSent leaves in doubt whether it was done."""
    try:
        match params:
            case ChannelSendParams(target=target, message=message, key=key, attempt=attempt):
                sent = await channel.send(target, message, key=key, attempt=attempt)
                return ChannelSent(message_id=None if sent is None else str(sent))
            case ChannelEditParams(target=target, message_id=message_id, message=message, last=last):
                await channel.edit(target, message_id, message, last=last)
                return NoParams()
            case ChannelActParams(action=action, key=key) if action in channel.actions:
                result = msgspec.to_builtins(
                    await channel.act(action, params.target, params.payload, key=key)
                )
                if action != "platform.call":  # who may call the platform itself gets its whole answer
                    result = without_fields(result, channel.withheld)
                return ChannelActed(result=result)
            case ChannelActParams(action=action):
                if action != EDIT_ACTION or not channel.abilities.get("edit"):
                    raise InvalidArgumentError(f"this channel does not carry out {action!r}")
                await _edit(channel, params.target, params.payload)
                return ChannelActed(result={})
    except NotSent as error:
        raise _refusal_of(error) from error
    except HostlerError:
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # the host is gone
        if isinstance(params, ChannelEditParams):
            # to edit again does no harm
            raise RuntimeError(f"the edit was given up: {_text_of(error)}"[:MAX_REASON_CHARS]) from error
        logger.error("a message of channel %s is in doubt", channel.channel_id, exc_info=error)
        kind = ChannelSent if isinstance(params, ChannelSendParams) else ChannelActed
        return kind(in_doubt=True, reason=_text_of(error))


async def _edit(channel: Channel, target: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
    """Carry out `message.edit`. Raises NotSent for a wrong target or no text, and what `edit` raises."""
    message_id, text = target.get("message_id"), payload.get("text")
    if not isinstance(message_id, str) or not message_id:
        raise NotSent("the target needs `message_id`, a text", final=True)
    if not isinstance(text, str) or not text:
        raise NotSent("the payload needs `text`, a text", final=True)
    try:
        place = msgspec.convert(target, ChannelTarget)
    except msgspec.ValidationError as error:
        raise NotSent(f"target: {error}", final=True) from error
    await channel.edit(place, message_id, ChannelMessage(text=text), last=True)


def _refusal_of(error: NotSent) -> HostlerError:
    text = writable(error.message[:MAX_REASON_CHARS])
    if error.final:
        return InvalidArgumentError(text)
    if error.retry_after is not None:
        return RateLimitedError(text, retry_after=max(0.0, error.retry_after))
    return RemoteFaultError(Fault(code="runtime_error", message=text, retryable=True))


def _text_of(error: BaseException) -> str:
    if isinstance(error, HostError):
        return writable(error.message[:MAX_REASON_CHARS])
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return writable(text[:MAX_REASON_CHARS])
