"""Messages to LINE: as replies, which are free, while a token is valid, else as pushes with a retry key."""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any

from hostler_line.bodies import bodies_of, without_quotes
from hostler_line.errors import AcceptedBeforeError, QuoteTokenError, ReplyTokenError
from hostler_line.ids import chat_id_of
from hostler_line.line_api import LineApi
from hostler_line.position import Position, Reply
from hostler_line.reply_tokens import USE_SECONDS, ReplyTokens
from hostler_sdk.channels import Channel, ChannelFound, ChannelMessage, ChannelSender, ChannelTarget, NotSent
from hostler_sdk.errors import HostError

SURE_SECONDS = 30.0
"""A reply token that LINE refuses within half its minute was used: the message was sent by it."""
RETRY_KEY_SECONDS = 23 * 3_600.0
"""LINE knows a retry key for 24 hours."""

logger = logging.getLogger(__name__)


def retry_key_of(key: str) -> str:
    """Return the retry key of a message or action: a UUID, the same each time it is sent."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"hostler:{key}"))


class Sender(ChannelSender):
    """Sends the messages of one bot."""

    def __init__(
        self,
        api: LineApi,
        channel: Channel,
        position: Position,
        tokens: ReplyTokens,
    ) -> None:
        self._api = api
        self._channel = channel
        self._position = position
        self._tokens = tokens
        self._replies = channel.settings.get("reply-tokens") is not False
        self._quotes = channel.settings.get("quote-in-groups") is not False

    async def send(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int
    ) -> str | None:
        """Send a message, and return the id of its text. Raises NotSent, UnclearError."""
        chat_id = chat_id_of(target.chat_id)
        bodies = self._bodies(target, message)
        tried = self._position.reply_of(key)
        if tried is not None and tried.is_sent:
            return tried.message_id
        # what may have been pushed before is pushed again, under its key
        if attempt == 1 and tried is None and self._replies and self._position.has_room:
            taken = self._tokens.take(chat_id)
            if taken is not None and await self._may_reply(key, *taken):
                try:
                    return await self._reply(key, taken[0], bodies)
                except ReplyTokenError as error:
                    logger.info("a reply token is not accepted, the message is pushed: %s", error.message)
        await self._forget_reply(key)
        return await self._push(chat_id, bodies, key)

    def _bodies(self, target: ChannelTarget, message: ChannelMessage) -> list[dict[str, Any]]:
        quotes = self._quotes and not target.chat_id.startswith("U")
        return bodies_of(message, self._tokens.quote_of(target.reply_to) if quotes else None)

    # -- replies ----------------------------------------------------------------------------------

    async def _may_reply(self, key: str, token: str, came: float) -> bool:
        """Keep what is about to be tried, so that a next process can find out what became of it."""
        self._position.replying(key, token, came)
        try:
            await self._channel.keep(self._position.state)
        except HostError as error:
            logger.info("the host cannot keep a reply token, the message is pushed: %s", error.message)
            return False
        return True

    async def _forget_reply(self, key: str) -> None:
        """Keep that a message is pushed from now on: a next process must not try its reply again."""
        tried = self._position.reply_of(key)
        if tried is None:
            return
        self._position.not_replied(key)
        try:
            await self._channel.keep(self._position.state)
        except HostError as error:
            self._position.replying(key, tried.token, tried.came)
            raise NotSent(f"the host cannot keep what is sent: {error.message}") from error

    async def _reply(self, key: str, token: str, bodies: list[dict[str, Any]]) -> str | None:
        body = {"replyToken": token}
        try:
            answer = await self._with_quotes(
                lambda found: self._api.call("POST", "/v2/bot/message/reply", body | {"messages": found}),
                bodies,
            )
        except NotSent as error:
            if error.final and not isinstance(error, ReplyTokenError):
                self._position.not_replied(key)  # a dead letter: nobody asks of it any more
            raise
        return await self._replied(key, answer)

    async def _replied(self, key: str, answer: dict[str, Any]) -> str | None:
        message_id = self._sent(answer)
        self._position.replied(key, message_id)
        try:
            await self._channel.keep(self._position.state)
        except HostError as error:  # it is sent all the same
            logger.warning("the host cannot keep that a reply was sent: %s", error.message)
        return message_id

    # -- pushes -----------------------------------------------------------------------------------

    async def _push(self, chat_id: str, bodies: list[dict[str, Any]], key: str) -> str | None:
        try:
            answer = await self._with_quotes(
                lambda found: self._api.call(
                    "POST",
                    "/v2/bot/message/push",
                    {"to": chat_id, "messages": found},
                    retry_key=retry_key_of(key),
                ),
                bodies,
            )
        except AcceptedBeforeError as error:
            answer = error.answer
        return self._sent(answer)

    async def _with_quotes(self, call: Any, bodies: list[dict[str, Any]]) -> dict[str, Any]:
        """Send message objects; where LINE does not know the quote any more, without it."""
        try:
            answer: dict[str, Any] = await call(bodies)
        except QuoteTokenError:
            bare = without_quotes(bodies)
            if bare == bodies:
                raise
            answer = await call(bare)
        return answer

    def _sent(self, answer: dict[str, Any]) -> str | None:
        """Note the messages that LINE names, and return the id of the first."""
        found = answer.get("sentMessages")
        sent = [one for one in (found if isinstance(found, list) else []) if isinstance(one, dict)]
        ids = [one["id"] for one in sent if isinstance(one.get("id"), str) and one["id"]]
        for one in sent:
            self._tokens.quotable(one.get("id"), one.get("quoteToken"))
        self._position.sent(ids)
        return ids[0] if ids else None

    # -- what became of a message -----------------------------------------------------------------

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Find out what became of a message. Raises NotSent or UnclearError: look again later.

        A push is sent again without harm, under its key. A reply is tried once more by its token, which LINE
        accepts once: after that it is there.
        """
        tried = self._position.reply_of(key)
        if tried is None:
            is_known = time.time() - since < RETRY_KEY_SECONDS
            return ChannelFound(found=False if is_known else None)
        if tried.is_sent:
            return ChannelFound(found=True, message_id=tried.message_id)
        return await self._reply_again(tried, key, self._bodies(target, message))

    async def _reply_again(self, tried: Reply, key: str, bodies: list[dict[str, Any]]) -> ChannelFound:
        if not 0 <= tried.age <= USE_SECONDS:
            return ChannelFound(found=None)
        is_sure = tried.age <= SURE_SECONDS
        try:
            answer = await self._api.call(
                "POST", "/v2/bot/message/reply", {"replyToken": tried.token, "messages": bodies}
            )
        except ReplyTokenError:
            if is_sure:
                await self._replied(key, {})
            return ChannelFound(found=True if is_sure else None)
        except NotSent as error:
            if not error.final:
                raise
            return ChannelFound(found=False)  # as it was before: a push tells the operator why
        return ChannelFound(found=True, message_id=await self._replied(key, answer))
