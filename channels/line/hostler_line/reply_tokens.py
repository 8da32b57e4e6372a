"""Reply tokens and quote tokens that came with events. LINE's replies are free; its pushes are counted."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

USE_SECONDS = 50.0
"""A reply token is valid for a minute."""
MAX_CHATS = 2_000
MAX_OF_A_CHAT = 10
MAX_QUOTES = 2_000


class ReplyTokens:
    """The tokens of one open channel. They are in memory alone: after a restart messages are pushed."""

    def __init__(self) -> None:
        self._by_chat: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()
        self._quotes: OrderedDict[str, str] = OrderedDict()

    def came(self, chat_id: str, token: str) -> None:
        """Keep a token that came just now."""
        tokens = self._by_chat.setdefault(chat_id, OrderedDict())
        tokens[token] = time.time()
        if len(tokens) > MAX_OF_A_CHAT:
            tokens.popitem(last=False)
        self._by_chat.move_to_end(chat_id)
        while len(self._by_chat) > MAX_CHATS:
            self._by_chat.popitem(last=False)

    def take(self, chat_id: str) -> tuple[str, float] | None:
        """Return the oldest token of a chat that is valid, and when it came. It is used once."""
        tokens = self._by_chat.pop(chat_id, None) or OrderedDict()
        while tokens:
            token, came = tokens.popitem(last=False)
            if 0 <= time.time() - came <= USE_SECONDS:
                if tokens:
                    self._by_chat[chat_id] = tokens
                return token, came
        return None

    def take_this(self, chat_id: str, token: str) -> bool:
        """Take one token; False if it was used already."""
        return self._by_chat.get(chat_id, OrderedDict()).pop(token, None) is not None

    def quotable(self, message_id: Any, quote_token: Any) -> None:
        """Keep what a message is quoted by."""
        if isinstance(message_id, str) and isinstance(quote_token, str) and quote_token:
            self._quotes[message_id] = quote_token
            while len(self._quotes) > MAX_QUOTES:
                self._quotes.popitem(last=False)

    def quote_of(self, message_id: str | None) -> str | None:
        """Return what a message is quoted by, if it is known and can be."""
        return None if message_id is None else self._quotes.get(message_id)
