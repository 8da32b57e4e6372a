"""Approvals and questions that a chat shows: kept in step with their pause, in its own transactions.

`follow` is called after each change of a pause. What is to be decided is put into the outbox, for the chat of
the conversation and those that the agent names (`ask_in`); what is settled edits each message that asked,
wherever it was settled. A message that was not sent yet is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

import msgspec

from hostler.domain.channels import MAX_ASK_IN, ChatPlace, channel_of_subject, chat_of
from hostler.domain.chat_questions import (
    About,
    about_of,
    asked_digest,
    buttons_of,
    choices_of,
    instruction,
    question_text,
    verdict_text,
)
from hostler.domain.outbound import MAX_MESSAGES, ReplyTarget, reply_target_of, text_messages
from hostler.domain.pause_values import Pause, PausedCall
from hostler.domain.pauses import MAX_CALLS
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.domain.unseen_text import seen_text
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import (
    agents,
    channel_connections,
    events,
    members,
    outbox,
    pause_calls,
    pause_votes,
    runs,
)
from hostler.storage.stores.channel_entries import entry_of
from hostler.storage.stores.channel_people import requester_of
from hostler.storage.stores.outbox_rows import Edit, NewDelivery, Outbound
from hostler.storage.stores.run_rows import Run
from hostler_protocol.channels import ChannelAbilities, ChannelMessage, ChannelTarget
from hostler_protocol.ids import digest

MAX_OPEN_PER_CHAT = 100
"""Questions of one chat that wait at once; further ones are decided elsewhere."""
MAX_ANSWERS = 1_000
"""Refusals of one question that are recorded: a group has many strangers."""
MAX_PARENTS = 100
"""Runs that are looked through for the chat of a child run."""
_q = load(__file__)


class ChatQuestion(Record, kw_only=True):
    """A question in a chat. `first_number`: of its first choice; 0: it has buttons, or takes words."""

    workspace_id: str
    question_id: str
    pause_id: str
    call_id: str
    asked: str
    about: About
    channel: str
    chat_id: str
    thread_id: str | None
    delivery_id: str
    first_number: int
    choices: int
    created_at: int
    closed_at: int | None


class _Place(Record):
    """A run and a chat that shows its questions. `event_id`: of the event that came from there.

    `origin`: what is said there of where the question comes from; "" in the chat of the conversation.
    """

    run: Run
    event_id: str | None
    to: ReplyTarget
    origin: str = ""

    @property
    def chat(self) -> tuple[str, str, str | None]:
        return self.to.channel, self.to.target.chat_id, self.to.target.thread_id


def follow(tx: Tx, pause: Pause) -> None:
    """Bring the chats up to date with a pause that has just changed."""
    run = runs.by_id(tx, pause.run_id)
    agent = None if run is None else agents.version(tx, run.workspace_id, run.agent_id, run.agent_version)
    if run is None or agent is None:
        return
    elsewhere = agent.spec.delivery_policy.ask_in
    in_chat = agent.spec.delivery_policy.enable_reply and channel_of_subject(run.requester) is not None
    most = len(elsewhere) + in_chat
    if not most:
        return
    places: list[_Place] | None = None
    opened = _open_of(tx, pause)
    for call in pause_calls.of_pause(tx, pause):
        about = about_of(pause, call)
        asked = None if about is None else asked_digest(about, call)
        shown = [one for one in opened if one.call_id == call.call_id]
        for question in shown:
            if question.asked != asked:
                _close(tx, pause, call, question)
        there = {(one.channel, one.chat_id, one.thread_id) for one in shown if one.asked == asked}
        if about is not None and len(there) < most:
            if places is None:
                places = [*_place_of(tx, run, in_chat=in_chat), *_places_elsewhere(tx, run, elsewhere)]
            for place in places:
                if place.chat not in there:
                    there.add(place.chat)
                    _ask(tx, pause, call, about, place)


def find(tx: Tx, workspace_id: str, question_id: str) -> ChatQuestion | None:
    """Return a question, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, question_id=question_id)
    return None if row is None else _question(row)


def open_in_chat(
    tx: Tx, workspace_id: str, channel: str, chat_id: str, thread_id: str | None
) -> list[ChatQuestion]:
    """Return the questions that wait in a chat or in a thread of it, oldest first."""
    where = {"workspace_id": workspace_id, "channel": channel, "chat_id": chat_id}
    rows = tx.all(_q.open_in_chat, **where, limit=2 * MAX_OPEN_PER_CHAT)
    return [one for row in rows if (one := _question(row)).thread_id == thread_id]


def answered_by(tx: Tx, workspace_id: str, event_id: str) -> bool:
    """Whether an event was an answer before: platforms deliver twice."""
    return tx.one(_q.answer_of_event, workspace_id=workspace_id, event_id=event_id) is not None


def note_answer(
    tx: Tx,
    question: ChatQuestion,
    event_id: str,
    *,
    subject: str,
    person_id: str,
    name: str | None,
    refused: bool,
) -> bool:
    """Record who answered; of those who may not, the first time of each. Return whether it is recorded."""
    ws, id_ = question.workspace_id, question.question_id
    if refused:
        row = tx.one(
            _q.count_answers, workspace_id=ws, question_id=id_, person_id=person_id, limit=MAX_ANSWERS
        )
        if row is not None and (row["own"] or row["number"] >= MAX_ANSWERS):
            return False
    noted = tx.run(
        _q.note_answer,
        workspace_id=ws,
        event_id=event_id,
        question_id=id_,
        pause_id=question.pause_id,
        subject=subject,
        person_id=person_id,
        actor_name=name,
        refused=int(refused),
        now=tx.now,
    )
    return noted == 1


def forget_person(tx: Tx, workspace_id: str, person_id: str) -> int:
    """Delete what is recorded of a person's answers; return how many."""
    return tx.run(_q.forget_person, workspace_id=workspace_id, person_id=person_id)


def settled_by(tx: Tx, pause: Pause, call: PausedCall, about: About) -> str | None:
    """Return how the one is called who settled a call; None if it was nobody."""
    ws, subject = pause.workspace_id, call.decided_by
    if about == "doubt":
        said = [one for one in pause_votes.of_pause(tx, pause) if one.call_id == call.call_id]
        said = [one for one in said if one.vote in {"happened", "not_happened"}]
        subject = said[-1].subject if said else None
    if subject is None or subject in {"host", "clock", "configuration"}:
        return None
    row = tx.one(_q.name_of, workspace_id=ws, pause_id=pause.pause_id, subject=subject)
    if row is not None and row["actor_name"]:
        return str(row["actor_name"])
    return members.names(tx, ws, [subject]).get(subject, subject)


def _open_of(tx: Tx, pause: Pause) -> list[ChatQuestion]:
    most = 2 * MAX_CALLS * (MAX_ASK_IN + 1)
    rows = tx.all(_q.of_pause, workspace_id=pause.workspace_id, pause_id=pause.pause_id, limit=most)
    return [_question(row) for row in rows]


def _place_of(tx: Tx, run: Run, *, in_chat: bool) -> Iterator[_Place]:
    """Yield the chat of a run's conversation, if it shows questions. A child's go where its parent's do."""
    if not in_chat:
        return
    asking = run
    for _ in range(MAX_PARENTS):
        if run.parent_run_id is None or (parent := runs.by_id(tx, run.parent_run_id)) is None:
            break
        run = parent
    record = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
    event = None if record is None else record.event()
    to = None if event is None else reply_target_of(event)
    entry = None if to is None else entry_of(tx, run.workspace_id, to.channel)
    if event is not None and to is not None and entry is not None and entry.ask_in_chat:
        yield _Place(asking, event.event_id, to)


def _places_elsewhere(tx: Tx, run: Run, names: Sequence[str | ChatPlace]) -> Iterator[_Place]:
    """Yield the chats that the agent names, of channels that there are."""
    origin = f"Asked for {requester_of(tx, run) or 'nobody'}, in run {run.run_id}."
    for name in names:
        chat = chat_of(name)
        if chat is not None and entry_of(tx, run.workspace_id, chat.channel) is not None:
            to = _target(tx, run.workspace_id, chat.channel, chat.chat_id, chat.thread_id)
            yield _Place(run, None, to, origin)


def _target(tx: Tx, workspace_id: str, channel: str, chat_id: str, thread_id: str | None) -> ReplyTarget:
    """Return a chat with what its channel can do; one that was never connected can write, and no more."""
    connection = channel_connections.find(tx, workspace_id, channel)
    can = ChannelAbilities() if connection is None else connection.abilities
    target = ChannelTarget(chat_id=chat_id, thread_id=thread_id)
    return ReplyTarget(channel, target, can.max_message, can.message_unit, can.files, can.buttons)


def _ask(tx: Tx, pause: Pause, call: PausedCall, about: About, place: _Place) -> None:
    ws, to = pause.workspace_id, place.to
    target = msgspec.structs.replace(to.target, reply_to=None)
    waiting = open_in_chat(tx, ws, to.channel, target.chat_id, target.thread_id)
    if len(waiting) >= MAX_OPEN_PER_CHAT:
        return
    asked = asked_digest(about, call)
    question_id = digest([pause.pause_id, asked, to.channel, target.chat_id, target.thread_id])[:24]
    choices = choices_of(about, call)
    first = max((one.first_number + one.choices for one in waiting if one.first_number), default=1)
    numbered = bool(choices) and not to.buttons
    below = instruction(about, call, choices, first if numbered else None)
    text = question_text(about, call, place.run.agent_name)
    text = "\n\n".join(one for one in (text, seen_text(place.origin), below) if one)
    parts = text_messages(text, to, plain=True)
    if choices and to.buttons:
        parts[-1] = msgspec.structs.replace(parts[-1], buttons=buttons_of(question_id, choices))
    ids = [_delivery_id(question_id, at) for at in range(len(parts))]
    for id_, part in zip(ids, parts, strict=True):
        _say(tx, place.run, place.event_id, to.channel, id_, Outbound(target, part))
    tx.run(
        _q.insert,
        workspace_id=ws,
        question_id=question_id,
        pause_id=pause.pause_id,
        call_id=call.call_id,
        asked=asked,
        about=about,
        channel=to.channel,
        chat_id=target.chat_id,
        thread_id=target.thread_id,
        delivery_id=ids[-1],
        first_number=first if numbered else 0,
        choices=len(choices),
        now=tx.now,
    )


def _close(tx: Tx, pause: Pause, call: PausedCall, question: ChatQuestion) -> None:
    ws = pause.workspace_id
    tx.run(_q.close, workspace_id=ws, question_id=question.question_id, now=tx.now)
    asked = outbox.find(tx, ws, question.delivery_id)
    run = runs.by_id(tx, pause.run_id)
    if asked is None or run is None or (asked.status == "failed" and not asked.perhaps_sent):
        return
    withdrawn = outbox.withdraw(tx, ws, question.delivery_id)
    if withdrawn and not _other_parts(tx, question):
        return
    said = verdict_text(question.about, pause, call, settled_by(tx, pause, call, question.about))
    target = ChannelTarget(chat_id=question.chat_id, thread_id=question.thread_id)
    to = _target(tx, ws, question.channel, question.chat_id, question.thread_id)
    whole, alone = _settled_texts(asked.outbound.message.text, f"{call.asked.title}: {said}", said, to)
    told = ChannelMessage(text=alone, plain=True)
    edit = Edit(question.delivery_id, told)
    edited = Outbound(target, ChannelMessage(text=whole, plain=True), edit=edit)
    outbound = Outbound(target, told) if withdrawn else edited
    id_ = digest([question.question_id, "closed"])[:32]
    _say(tx, run, asked.event_id, question.channel, id_, outbound)


def _settled_texts(asked: str, alone: str, said: str, to: ReplyTarget) -> tuple[str, str]:
    """Return what a question's message becomes, and what is said where it cannot be edited."""
    fitting = text_messages(f"{asked}\n\n{said}", to, plain=True)
    if len(fitting) > 1:
        fitting = text_messages(said, to, plain=True)
    return fitting[0].text, text_messages(alone, to, plain=True)[0].text


def _other_parts(tx: Tx, question: ChatQuestion) -> bool:
    """Take back the parts of a question before its last one; return whether some were sent."""
    ids = takewhile(
        lambda id_: id_ != question.delivery_id,
        (_delivery_id(question.question_id, at) for at in range(MAX_MESSAGES)),
    )
    ws = question.workspace_id
    sent = [id_ for id_ in ids if not outbox.withdraw(tx, ws, id_) and outbox.find(tx, ws, id_) is not None]
    return bool(sent)


def _say(  # noqa: PLR0917
    tx: Tx, run: Run, event_id: str | None, channel: str, delivery_id: str, outbound: Outbound
) -> None:
    outbox.add(
        tx,
        run.workspace_id,
        NewDelivery(
            delivery_id=delivery_id,
            channel=channel,
            outbound=outbound,
            conversation_id=run.conversation_id,
            event_id=event_id,
            run_id=run.run_id,
        ),
    )


def _delivery_id(question_id: str, part: int) -> str:
    return digest([question_id, part])[:32]


def _question(row: Row) -> ChatQuestion:
    return from_row(row, ChatQuestion)
