"""`ConnectedChannel`: a channel that states its form, and lets a connection of another module do the work.

The host asks each channel for its form when it starts, and a platform's library may take seconds to import:
the module of the connection is imported by the first `open`, in a thread.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any, ClassVar

from hostler_protocol.channels import (
    ChannelFound,
    ChannelMessage,
    ChannelRequestParams,
    ChannelResponse,
    ChannelTarget,
    Person,
)
from hostler_sdk.channels.channel import Channel, NotSent, UnclearError


class ChannelSender:
    """Sends what agents write. The methods and their errors are those of `Channel`."""

    async def send(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int
    ) -> str | None:
        """Send a message, and return its id on the platform."""
        raise NotImplementedError(f"{type(self).__name__} has no send method")

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool
    ) -> None:
        """Replace a message that was sent."""
        raise NotImplementedError(f"{type(self).__name__} has no edit method")

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Look whether a message was sent."""
        raise NotImplementedError(f"{type(self).__name__} has no find method")


class ChannelActions:
    """Carries out platform actions."""

    async def act(self, action: str, target: dict[str, Any], payload: dict[str, Any], *, key: str) -> Any:
        """Carry out one of the channel's `actions`, and return its result as JSON."""
        raise NotImplementedError(f"{type(self).__name__} has no act method")


class ChannelConnection:
    """One connection to a platform. It is made with its channel, opened, run and closed once.

    Set `sender`, and `actions` if the channel has some, when it is made. What `Channel` says of the methods
    of the same name holds. `open` may raise NotSent and UnclearError, and `run` a group of ConnectionErrors:
    of them the channel makes a ConnectionError.
    """

    sender: ChannelSender
    actions: ChannelActions = ChannelActions()

    def __init__(self, channel: Any) -> None:
        """Read `channel.settings`. Raises SetupError if they cannot work."""

    async def open(self) -> Person | None:
        """Connect to the platform; return the bot's own account."""
        return None

    async def run(self) -> None:
        """Receive and deliver until cancelled."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Let go of what was made, also after an `open` that failed."""

    async def request(self, request: ChannelRequestParams) -> ChannelResponse:
        """Answer an HTTP request of the platform."""
        raise NotImplementedError(f"{type(self).__name__} has no request method")


class ConnectedChannel(Channel):
    """A channel whose work a `ChannelConnection` does. It states label, abilities, actions and form.

        class Shout(ConnectedChannel):
            \"\"\"Shout, the chat of one room.\"\"\"

            connection = "hostler_shout.connection:Connection"
            abilities = {"edit": True, "max_message": 500}
            config = [{"name": "token", "type": "secret", "required": True}]

    Each `open` makes a new connection. What is sent while there is none raises NotSent, and is sent again.
    """

    connection: ClassVar[str] = ""
    """Module and class of the connection, like `hostler_shout.connection:Connection`."""
    _connection: ChannelConnection | None = None

    async def open(self) -> Person | None:
        """Make the connection, and open it."""
        module, _, name = self.connection.partition(":")
        if not module or not name:
            text = f"{type(self).__name__}.connection must name a module and a class"
            raise TypeError(f"{text}, like 'hostler_shout.connection:Connection', not {self.connection!r}")
        kind = getattr(await asyncio.to_thread(import_module, module), name)
        connection: ChannelConnection = kind(self)
        self._connection = connection
        self._check(connection)
        try:
            return await connection.open()
        except (NotSent, UnclearError) as error:
            raise ConnectionError(str(error)) from None

    def _check(self, connection: ChannelConnection) -> None:
        """Raise TypeError if the connection lacks a method that the abilities need."""
        needed = {
            "send": (ChannelSender, connection.sender, True),
            "edit": (ChannelSender, connection.sender, self.abilities.get("edit")),
            "find": (ChannelSender, connection.sender, self.abilities.get("repeat") == "look_up"),
            "act": (ChannelActions, connection.actions, self.actions),
            "request": (ChannelConnection, connection, self.abilities.get("webhook")),
        }
        for method, (base, part, is_needed) in needed.items():
            if is_needed and getattr(type(part), method) is getattr(base, method):
                wanted = f"{type(self).__name__} needs by its abilities or actions"
                raise TypeError(f"{type(part).__name__} has no method {method}, which {wanted}")

    @property
    def open_connection(self) -> ChannelConnection:
        """The connection. Raises NotSent if there is none."""
        if self._connection is None:
            raise NotSent("the channel is not connected to its platform")
        return self._connection

    async def run(self) -> None:
        """Let the connection receive and deliver. Of a group of ConnectionErrors the first is raised."""
        try:
            await self.open_connection.run()
        except BaseExceptionGroup as group:
            refused, rest = group.split(ConnectionError)
            if refused is None or rest is not None:
                raise
            raise ConnectionError(str(_first_of(refused))) from None

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def send(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int
    ) -> str | None:
        """Send by the connection's `sender`."""
        return await self.open_connection.sender.send(target, message, key=key, attempt=attempt)

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool
    ) -> None:
        """Edit by the connection's `sender`."""
        await self.open_connection.sender.edit(target, message_id, message, last=last)

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Look by the connection's `sender`."""
        return await self.open_connection.sender.find(target, message, key=key, since=since)

    async def act(self, action: str, target: dict[str, Any], payload: dict[str, Any], *, key: str) -> Any:
        """Act by the connection's `actions`."""
        return await self.open_connection.actions.act(action, target, payload, key=key)

    async def request(self, request: ChannelRequestParams) -> ChannelResponse:
        """Let the connection answer."""
        return await self.open_connection.request(request)


def _first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
