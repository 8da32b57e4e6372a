"""What a framework keeps of a conversation from one run to the next: in the host's state, or an artifact."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import msgspec

from hostler_adapters.conversation import in_conversation
from hostler_sdk import RunContext
from hostler_sdk.errors import Expired, NotFound

MAX_INLINE_BYTES = 192 * 1024
"""Size of a session in a state value, as JSON: the host takes 256 KiB, and ids have to fit, too."""
MAX_SESSION_BYTES = 8 * 1024 * 1024
"""Size of a session in an artifact. A larger one is dropped, and the history is used."""
MAX_EVENTS = 200
"""Ids of events that a session has seen; only the newest of them are looked for."""
T = TypeVar("T")


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A session as stored: `data` in place, or in an artifact. `events`: those it has seen, oldest first."""

    format: str
    events: list[str]
    data: Any = None
    artifact_id: str | None = None


class Sessions:
    """The session of one conversation, as one framework writes it.

    `format` names the framework and the version of the form; a session of another format is not read. Without
    a conversation, or where the agent's policy switches state off, nothing is kept.
    """

    def __init__(self, ctx: RunContext, format: str) -> None:  # noqa: A002 - the name of the field
        self._ctx = ctx
        self._format = format
        self._key = f"adapter.{format.partition('/')[0]}"

    @property
    def possible(self) -> bool:
        """Whether this run can keep a session."""
        return in_conversation(self._ctx) and self._ctx.context.available_apis.state

    async def load(self) -> Stored | None:
        """Return the session with its data, or None."""
        if not self.possible:
            return None
        value = await self._ctx.states.get("conversation", self._key)
        if value is None:
            return None
        try:
            stored = msgspec.convert(value, Stored)
        except msgspec.ValidationError as error:
            await self._ignore(f"it is not of the form of this version ({error})")
            return None
        if stored.format != self._format:
            await self._ignore(f"it is of the format {stored.format}, and {self._format} is read here")
            return None
        return stored if stored.artifact_id is None else await self._read(stored, stored.artifact_id)

    async def _read(self, stored: Stored, artifact_id: str) -> Stored | None:
        content = bytearray()
        try:
            async for part in self._ctx.artifacts.stream(artifact_id):
                content += part
        except (NotFound, Expired) as error:
            await self._ignore(f"its artifact is gone ({error.message})")
            return None
        return msgspec.structs.replace(stored, data=msgspec.json.decode(content))

    async def save(self, data: Any, events: Sequence[str]) -> None:
        """Store a session of JSON values. One over MAX_SESSION_BYTES is dropped, with a warning."""
        if not self.possible:
            return
        encoded = msgspec.json.encode(data)
        stored = Stored(format=self._format, events=list(events[-MAX_EVENTS:]))
        if len(encoded) > MAX_SESSION_BYTES:
            text = (
                f"the session of {len(encoded):,} bytes is not kept, {MAX_SESSION_BYTES:,} are possible: the "
                "next run of this conversation begins with its history alone"
            )
            await self._ctx.log(text, "warning")
            await self._ctx.states.delete("conversation", self._key)
            return
        if len(encoded) <= MAX_INLINE_BYTES:
            stored = msgspec.structs.replace(stored, data=data)
        else:
            artifact_id = await self._ctx.artifacts.upload(
                encoded, artifact_type="session", name=f"{self._key}.json", mime_type="application/json"
            )
            stored = msgspec.structs.replace(stored, artifact_id=artifact_id)
        await self._ctx.states.set("conversation", self._key, msgspec.to_builtins(stored))

    async def _ignore(self, reason: str) -> None:
        await self._ctx.log(f"the stored session is not used: {reason}; the history is", "warning")


def latest(messages: Sequence[T], limit: int, begins_turn: Callable[[T], bool]) -> list[T]:
    """Return the last messages, at most `limit`, from the start of a turn on; the last turn is kept whole."""
    starts = [number for number, message in enumerate(messages) if begins_turn(message)]
    if len(messages) <= limit or not starts:
        return list(messages)
    fitting = [start for start in starts if len(messages) - start <= limit]
    return list(messages[min(fitting) if fitting else starts[-1] :])


def merged(before: Collection[str], new: Collection[str]) -> list[str]:
    """Return ids without repetition, in order."""
    return list(dict.fromkeys([*before, *new]))
