"""Answers that people give in a chat to what waits there: a button that is pressed, a number, words.

Who may decide is what the rule of the call says. Anybody else is told so, alone, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from hostler.domain.chat_questions import (
    Choice,
    about_of,
    answer_in_words,
    asked_digest,
    choices_of,
    free_field,
    pressed,
    verdict_text,
    written,
)
from hostler.domain.outbound import is_part
from hostler.domain.pause_actions import (
    ActRequest,
    AlreadyDecidedError,
    NotApproverError,
    ResolveRequest,
    StaleViewError,
)
from hostler.domain.pause_values import Pause, PausedCall
from hostler.domain.record import Record
from hostler.pauses import transitions
from hostler.pauses.transitions import Done
from hostler.storage.port import Database, Tx
from hostler.storage.stores import audit, channel_people, chat_questions, outbox, pause_calls, pauses
from hostler.storage.stores.chat_questions import ChatQuestion
from hostler.storage.stores.outbox_rows import NewDelivery, Outbound
from hostler_protocol.channels import (
    ChannelEvent,
    ChannelMessage,
    ChannelTarget,
    Chat,
    IngestEventReply,
    Person,
)
from hostler_protocol.errors import CallerError, NotFoundError
from hostler_protocol.ids import digest

GONE = "This question is not there any more."
NOTED = "Noted. Others have to approve it, too."
MAX_NOTICE_CHARS = 180
"""Telegram shows at most 200 characters to who pressed a button."""
Decide = Callable[[Callable[[Tx], Done]], Awaitable[Done]]
"""`PauseService.decide`."""


class _UnchangedError(Exception):
    """The same was decided before: nothing is written."""


class _Meant(NamedTuple):
    """The question that somebody answers, as it is now, and how. `replied`: they point at its message."""

    question: ChatQuestion
    pause: Pause
    call: PausedCall
    choice: Choice
    replied: bool


class ChatAnswers(Record):
    """Takes the answers that come through one channel. `wake`: look for messages to be sent."""

    db: Database
    workspace_id: str
    channel: str
    decide: Decide
    wake: Callable[[], None]

    async def take(self, event: ChannelEvent, event_id: str) -> IngestEventReply | None:
        """Take an event that answers a question; None if it answers none."""
        chat, person = event.chat, event.person
        button = pressed(event.data.get("value")) if event.event_type == "interaction.submitted" else None
        if button is None and not _is_text(event):
            return None
        if chat is None or person is None:
            return None if button is None else IngestEventReply(outcome="ignored", notice=GONE)

        def look(tx: Tx) -> _Meant | str | None:
            if chat_questions.answered_by(tx, self.workspace_id, event_id):
                return "duplicate"
            if button is not None:
                return self._pressed(tx, chat, *button)
            return self._said(tx, event, chat)

        meant = await self.db.read(look, brief=True)
        if meant == "duplicate":
            return IngestEventReply(outcome="duplicate", event_id=event_id)
        if isinstance(meant, _Meant):
            reply = await self._settle(meant, event, event_id, person, chat)
            self.wake()
            return reply
        return None if button is None else IngestEventReply(outcome="ignored", notice=GONE)

    # -- what is meant ----------------------------------------------------------------------------

    def _pressed(self, tx: Tx, chat: Chat, question_id: str, at: int) -> _Meant | None:
        question = chat_questions.find(tx, self.workspace_id, question_id)
        if question is None or (question.channel, question.chat_id) != (self.channel, chat.chat_id):
            return None
        found = self._now(tx, question)
        if found is None:
            return None
        choices = choices_of(question.about, found[1])
        return _Meant(question, *found, choices[at], replied=True) if 0 <= at < len(choices) else None

    def _said(self, tx: Tx, event: ChannelEvent, chat: Chat) -> _Meant | None:
        """Return what a message answers: a question that it replies to, or the only one that it fits."""
        ws, text = self.workspace_id, event.text or ""
        waiting = chat_questions.open_in_chat(tx, ws, self.channel, chat.chat_id, chat.thread_id)
        if not waiting:
            return None
        if event.reply_to is not None:
            for question in waiting:
                sent = outbox.find(tx, ws, question.delivery_id)
                if sent is not None and is_part(event.reply_to, sent.message_id):
                    return self._in_words(tx, question, text, replied=True, any_words=True)
        numbered = [question for question in waiting if question.first_number]
        fitting = [one for question in numbered if (one := self._in_words(tx, question, text)) is not None]
        if len(fitting) == 1:
            return fitting[0]
        if chat.kind == "private" and len(waiting) == 1 and not fitting:
            return self._in_words(tx, waiting[0], text, any_words=True)
        return None

    def _in_words(
        self, tx: Tx, question: ChatQuestion, text: str, *, replied: bool = False, any_words: bool = False
    ) -> _Meant | None:
        """Return what a text means as the answer to a question. `any_words`: it may fill in a field."""
        found = self._now(tx, question)
        if found is None:
            return None
        pause, call = found
        choices = choices_of(question.about, call)
        at = written(choices, question.first_number or 1, text)
        if at is not None:
            return _Meant(question, pause, call, choices[at], replied)
        field = free_field(question.about, call)
        if field is None or choices or not any_words:
            return None
        return _Meant(question, pause, call, Choice("", answer_in_words(call, field, text)), replied)

    def _now(self, tx: Tx, question: ChatQuestion) -> tuple[Pause, PausedCall] | None:
        pause = pauses.find(tx, self.workspace_id, question.pause_id)
        call = None if pause is None else pause_calls.find(tx, pause, question.call_id)
        return None if pause is None or call is None else (pause, call)

    # -- deciding ---------------------------------------------------------------------------------

    async def _settle(
        self, meant: _Meant, event: ChannelEvent, event_id: str, person: Person, chat: Chat
    ) -> IngestEventReply | None:
        question, told = meant.question, ""

        def work(tx: Tx) -> Done:
            nonlocal told
            caller = channel_people.caller_of(tx, self.workspace_id, self.channel, person.person_id)
            found = self._now(tx, question)
            if found is None:
                raise NotFoundError(GONE)
            _check_shown(question, *found)
            chat_questions.note_answer(
                tx,
                question,
                event_id,
                subject=caller.subject,
                person_id=person.person_id,
                name=person.name,
                refused=False,
            )
            if meant.choice.resolve is not None:
                request = ResolveRequest(outcome=meant.choice.resolve)
                done = transitions.resolve(tx, caller, question.pause_id, question.call_id, request)
            elif meant.choice.act is not None:
                asked = ActRequest(revision=found[0].revision, actions=[meant.choice.act])
                done = transitions.act(tx, caller, question.pause_id, asked, request_key=None, body_digest="")
            else:
                raise RuntimeError("a choice settles nothing")
            told = self._told(tx, question)
            if not done.changed:
                raise _UnchangedError
            return done

        try:
            await self.decide(work)
        except _UnchangedError:
            return IngestEventReply(outcome="ignored", notice=told)
        except NotApproverError as error:
            if event.event_type != "interaction.submitted" and not meant.replied:
                return None  # an ordinary message of somebody who does not decide
            await self._note_refusal(question, event_id, person)
            return await self._refused(event, event_id, chat, f"This is not yours to decide: {error.message}")
        except AlreadyDecidedError:
            text = await self.db.read(lambda tx: self._told(tx, question))
            return await self._refused(event, event_id, chat, text)
        except CallerError as error:
            return await self._refused(event, event_id, chat, error.message)
        return IngestEventReply(outcome="decided", event_id=event_id, notice=told)

    def _told(self, tx: Tx, question: ChatQuestion) -> str:
        """Return what the one who answers is told of a question."""
        found = self._now(tx, question)
        if found is None:
            return GONE
        pause, call = found
        if question.about == "decision" and call.decision == "undecided" and pause.status == "open":
            return NOTED
        who = chat_questions.settled_by(tx, pause, call, question.about)
        return verdict_text(question.about, pause, call, who)[:MAX_NOTICE_CHARS]

    async def _note_refusal(self, question: ChatQuestion, event_id: str, person: Person) -> None:
        """Record, once for each person, that somebody tried to decide who may not."""

        def work(tx: Tx) -> None:
            ws = self.workspace_id
            subject = channel_people.subject_of(tx, ws, self.channel, person.person_id)
            noted = chat_questions.note_answer(
                tx,
                question,
                event_id,
                subject=subject,
                person_id=person.person_id,
                name=person.name,
                refused=True,
            )
            if noted:
                body = {"call_id": question.call_id, "channel": self.channel}
                audit.record(tx, ws, subject, "pause.answer_refused", question.pause_id, body)

        await self.db.write(work)

    async def _refused(self, event: ChannelEvent, event_id: str, chat: Chat, why: str) -> IngestEventReply:
        """Say why an answer was not taken: to who pressed alone, else in the chat."""
        why = why[:MAX_NOTICE_CHARS]
        if event.event_type != "interaction.submitted":
            target = ChannelTarget(chat_id=chat.chat_id, thread_id=chat.thread_id, reply_to=event.message_id)
            new = NewDelivery(
                delivery_id=digest([event_id, "refused"])[:32],
                channel=self.channel,
                outbound=Outbound(target, ChannelMessage(text=why, plain=True)),
            )
            await self.db.write(lambda tx: outbox.add(tx, self.workspace_id, new))
        return IngestEventReply(outcome="ignored", notice=why)


def _is_text(event: ChannelEvent) -> bool:
    """Whether a message may be an answer: text alone, and no command."""
    return (
        event.event_type == "message.received"
        and bool(event.text)
        and not event.attachments
        and "command" not in event.addressed
    )


def _check_shown(question: ChatQuestion, pause: Pause, call: PausedCall) -> None:
    """Refuse an answer to what has changed since it was shown. StaleViewError."""
    about = about_of(pause, call)
    if about is not None and asked_digest(about, call) != question.asked:
        raise StaleViewError("this has changed since it was shown: look at the newest message")
