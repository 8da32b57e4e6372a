"""Messages that are several on the platform: send their parts, and name them by one id."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hostler_sdk.channels.channel import NotSent, UnclearError

MAX_BEGUN = 1_000
"""Messages of several parts of which some could not be sent yet."""
MAX_ID_CHARS = 512
"""Of an id, as the host takes it."""
_BETWEEN = "|"


def joined_ids(ids: Iterable[str]) -> str | None:
    """Return the ids of the parts of a message as one, as far as they fit; None of none.

    The host keeps it, so that a later process can edit or delete all parts.
    """
    joined = ""
    for id_ in ids:
        longer = f"{joined}{_BETWEEN}{id_}" if joined else id_
        if len(longer) > MAX_ID_CHARS:
            break
        joined = longer
    return joined or None


def ids_of(message_id: Any) -> list[str]:
    """Return the ids of the parts of a message; what is no text as it is, for the platform to refuse."""
    return message_id.split(_BETWEEN) if isinstance(message_id, str) else [message_id]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a message. `send` returns its id, `change` edits the one with an id. `content` is equal if
    nothing is to be changed.
    """

    content: Any
    send: Callable[[], Awaitable[str]]
    change: Callable[[str], Awaitable[None]] | None = None


class PartSender:
    """Sends messages in parts. What was sent before another part failed is not sent again in this process.

    An answer may have grown before the rest is sent: then parts that are there are changed, so that no text
    is left out between them.
    """

    def __init__(self) -> None:
        self._begun: OrderedDict[str, list[tuple[str, Any]]] = OrderedDict()

    async def send(
        self, key: str, parts: Sequence[Part], drop: Callable[[str], Awaitable[None]] | None = None
    ) -> list[str]:
        """Send the parts of a message that are not sent yet, and return the ids of all.

        `drop` deletes one that is there, where the text has become shorter. Raises what they raise: NotSent,
        UnclearError.
        """
        sent = self._begun.pop(key, [])
        try:
            for number, (part, (id_, content)) in enumerate(zip(parts, list(sent), strict=False)):
                if content != part.content and part.change is not None:
                    await part.change(id_)
                    sent[number] = (id_, part.content)
            while len(sent) > len(parts) and drop is not None:
                await drop(sent[-1][0])
                sent.pop()
            for part in parts[len(sent) :]:
                sent.append((await part.send(), part.content))
        except (NotSent, UnclearError):
            self._keep(key, sent)
            raise
        return [id_ for id_, _ in sent]

    def found(self, key: str, parts: Sequence[tuple[str, Any]]) -> None:
        """Note the first parts of a message, ids with contents: a process before has sent them."""
        self._keep(key, list(parts))

    def has_begun(self, key: str) -> bool:
        """Whether a part of a message is sent, and another not."""
        return key in self._begun

    def _keep(self, key: str, sent: list[tuple[str, Any]]) -> None:
        if not sent:
            return
        self._begun[key] = sent
        while len(self._begun) > MAX_BEGUN:
            self._begun.popitem(last=False)
