"""Telegram: texts that are longer as they are shown than a message may be, sent in parts."""

from __future__ import annotations

import re

from hostler_protocol.channels import Button
from hostler_protocol.errors import RateLimitedError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.telegram_desk import connected, desk
from support.telegram_server import Refusal, TelegramServer

__all__ = ["desk"]

OK = [[Button(label="ok", value="ok")]]
LIMITED = Refusal(429, "Too Many Requests: retry after 2", retry_after=2)


def table(rows: int, word: str = "x") -> str:
    """A table whose columns are aligned, which makes it longer."""
    return f"|{'wide' * 10}|b|\n|-|-|\n" + "\n".join(f"|{number}|{word}|" for number in range(rows))


def rows_of(texts: list[str]) -> list[int]:
    return [int(found) for text in texts for found in re.findall(r"^(\d+) +\| ", text, re.MULTILINE)]


def test_a_table_is_in_parts_and_each_has_its_titles(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        sent = await channel.send(f"{table(200)}\n\nthe **end**", at={"reply_to": "33"}, buttons=OK)
        texts = server.texts()
        assert rows_of(texts) == list(range(200))
        assert all(text.startswith("<pre>widewide") for text in texts)
        assert texts[-1].endswith("</pre>\n\nthe <b>end</b>")
        assert sent.message_id == "|".join(map(str, server.messages))
        assert len(texts) > 1
        below = ["reply_markup" in one for one in server.messages.values()]
        assert below == [*[False] * (len(texts) - 1), True]
        replies = ["reply_parameters" in call.params for call in server.called("sendMessage")]
        assert replies == [True, *[False] * (len(texts) - 1)]

    connected(desk, body)


def test_tags_and_entities_count_as_what_they_show(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        await channel.send("**<&>** " * 512)  # 2,048 units, although over 14,000 characters of HTML
        await channel.send(f"`{'&' * 4096}`", key="k2")
        await channel.send("<" * 4096, key="k3")
        assert len(server.texts()) == 3
        family = "👨‍👩‍👧"
        await channel.send(f"> {family * 511}\n> > {family}", key="k4")  # 8 units each; inner quotes add some
        parts = server.texts()[3:]
        assert len(parts) == 2
        assert "".join(parts).count(family) == 512
        assert all(text.endswith(f"{family}</blockquote>") for text in parts)

    connected(desk, body)


def test_an_answer_grows_in_its_one_message_and_parts_change_with_their_text(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        sent = await channel.send("it begins")
        await channel.edit(sent.message_id, table(200))
        assert server.texts() == [table(200)]  # as it is written: what was said since stands below
        server.messages.clear()
        sent = await channel.send(table(200), key="k2", buttons=OK)
        count = len(server.messages)
        await channel.edit(sent.message_id, f"a word before\n\n{table(199, 'y')}", buttons=OK)
        assert (rows_of(server.texts()), len(server.messages)) == (list(range(199)), count)
        assert "| x" not in "".join(server.texts())
        server.refusals["deleteMessage"] = [Refusal(400, "Bad Request: message can't be deleted")] * 1
        await channel.edit(sent.message_id, "**decided**")
        texts = server.texts()
        assert (texts[0], len(texts)) == ("<b>decided</b>", min(count, 2))
        assert "reply_markup" not in server.messages[min(server.messages)]

    connected(desk, body)


def test_a_part_that_is_there_is_not_sent_again_and_changes_with_the_text(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        usual = table(200)
        server.refusals["sendMessage"] = [None, LIMITED]
        assert isinstance(await refusal(channel.send(usual)), RateLimitedError)
        assert len(server.messages) == 1
        sent = await channel.send(usual, attempt=2)
        assert rows_of(server.texts()) == list(range(200))
        assert not server.called("editMessageText")
        assert sent.message_id == "|".join(map(str, server.messages))
        server.messages.clear()
        server.refusals["sendMessage"] = [None, LIMITED]
        await refusal(channel.send(usual, key="k2"))
        await channel.send(f"it has **grown**\n\n{usual}", key="k2", attempt=2)
        assert rows_of(server.texts()) == list(range(200))
        assert server.texts()[0].startswith("it has <b>grown</b>")
        server.messages.clear()
        server.refusals["sendMessage"] = [None, None, LIMITED]
        await refusal(channel.send(usual, key="k3"))
        await channel.send("short", key="k3", attempt=2)
        assert server.texts() == ["short"]

    connected(desk, body)


def test_where_the_marks_of_a_part_are_refused_it_says_the_same_without(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.refusals["sendMessage"] = [Refusal(400, "Bad Request: can't parse entities: tag")]
        await channel.send(f"[docs](https://a.example) & more\n\n{table(200)}")
        first, *others = server.texts()
        assert first.startswith("docs (https://a.example) & more")
        assert rows_of([first, *others]) == list(range(200))

    connected(desk, body)


def test_all_parts_are_deleted_and_forwarded(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        sent = await channel.send(table(200))
        at = {"chat_id": "7", "message_id": sent.message_id}
        await channel.act("message.react", at, emoji="👍")
        (call,) = server.called("setMessageReaction")
        assert call.params["message_id"] == str(min(server.messages))
        count = len(server.messages)
        forwarded = await channel.act("message.forward", at)
        assert forwarded.result["message_id"] == "|".join(map(str, list(server.messages)[count:]))
        await channel.act("message.delete", at)
        assert server.texts() == ["forwarded"] * count
        await channel.send("and more", key="k2", at={"reply_to": sent.message_id})
        assert (
            str(min(map(int, (sent.message_id or "").split("|"))))
            in server.calls[-1].params["reply_parameters"]
        )

    connected(desk, body)
