"""Answers that grow by edits: rows of the outbox whose text is replaced by a newer one until it is final.

The first text is sent, later ones edit it; only the newest waits. The message that completes the answer takes
its rows over, in its own transaction, as does the end of the run: so none of them stays unfinished.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.domain.growing import UNFINISHED, is_the_grown
from hostler.domain.message_split import length_of
from hostler.domain.outbound import MAX_MESSAGES, ReplyTarget, reply_target_of
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import events, outbox, runs
from hostler.storage.stores.channel_entries import is_configured
from hostler.storage.stores.outbox_rows import Delivery, NewDelivery, Outbound, delivery_of
from hostler.storage.stores.run_rows import Run
from hostler_protocol.channels import ChannelMessage, ChannelTarget
from hostler_protocol.ids import new_id
from hostler_protocol.runs import RunStatus

WITHDRAWN = "[…]"
"""What becomes of a message whose text is in an earlier one now: the answer became shorter."""
_q = load(__file__)


def grow(tx: Tx, run: Run, to: ReplyTarget, key: str, said: Sequence[tuple[ChannelTarget, str]]) -> bool:
    """Store the text so far of an answer, as its messages; return whether anything is to be sent.

    Nothing is stored while another answer of the run is not complete.
    """
    rows, is_new = _of_run(tx, run.run_id), False
    if rows and (rows[0].outbound.grows or "") != key:
        return False
    for number, (target, text) in enumerate(said):
        outbound = Outbound(target, ChannelMessage(text=text), grows=key)
        if number >= len(rows):
            _add(tx, run, to, outbound)
            is_new = True
        elif rows[number].outbound.message.text != text:
            _write(tx, rows[number], outbound)
            is_new = True
    return is_new


def grows(tx: Tx, run_id: str) -> bool:
    """Whether an answer of a run is seen to grow."""
    return bool(tx.all(_q.of_run, run_id=run_id, limit=1))


def complete(  # noqa: PLR0917
    tx: Tx,
    run_id: str,
    message_id: str | None,
    text: str,
    said: Sequence[tuple[ChannelTarget, ChannelMessage]],
    sequence: int,
) -> list[tuple[ChannelTarget, ChannelMessage]]:
    """Give the answer that grew its final text; return those of its messages that are still to be added.

    Files go in a message of their own then, since an edit adds none.
    """
    rows = _of_run(tx, run_id)
    if not rows or not is_the_grown(rows[0].outbound.grows or "", _text(rows), message_id, text):
        return list(said)
    texts = [(target, msgspec.structs.replace(one, attachments=[])) for target, one in said if one.text]
    files = [(target, msgspec.structs.replace(one, text="")) for target, one in said if one.attachments]
    for number, row in enumerate(rows):
        message = texts[number][1] if number < len(texts) else ChannelMessage(text=WITHDRAWN)
        _finish(tx, row, message, sequence)
    return texts[len(rows) :] + files


def leave(tx: Tx, run_id: str, status: RunStatus) -> None:
    """Let an answer that was never completed stay as it is, with a mark unless its run completed."""
    rows = _of_run(tx, run_id)
    if not rows:
        return
    run = runs.by_id(tx, run_id)
    if run is None or not is_configured(tx, run.workspace_id, rows[0].channel):
        return
    record = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
    event = None if record is None else record.event()
    to = None if event is None else reply_target_of(event)
    for row in rows:
        text = row.outbound.message.text
        if row is rows[-1] and status != "completed":
            text = _marked(text, to)
        _finish(tx, row, ChannelMessage(text=text), None)


def _marked(text: str, to: ReplyTarget | None) -> str:
    """Return a text with the mark of what was not finished, if there is room for it."""
    marked = f"{text}\n\n{UNFINISHED}"
    fits = to is None or length_of(marked, to.unit) <= to.limit
    return marked if fits else f"{text[: len(text) - len(UNFINISHED) - 4].rstrip()}\n\n{UNFINISHED}"


def _of_run(tx: Tx, run_id: str) -> list[Delivery]:
    return [delivery_of(row) for row in tx.all(_q.of_run, run_id=run_id, limit=MAX_MESSAGES)]


def _text(rows: Sequence[Delivery]) -> str:
    return rows[0].outbound.message.text


def _add(tx: Tx, run: Run, to: ReplyTarget, outbound: Outbound) -> None:
    outbox.add(
        tx,
        run.workspace_id,
        NewDelivery(
            delivery_id=new_id(),
            channel=to.channel,
            outbound=outbound,
            conversation_id=run.conversation_id,
            event_id=run.event_id,
            run_id=run.run_id,
            growing=1,
        ),
    )


def _write(tx: Tx, row: Delivery, outbound: Outbound) -> None:
    body = msgspec.json.encode(outbound).decode()
    where = {"workspace_id": row.workspace_id, "delivery_id": row.delivery_id}
    tx.run(_q.update, **where, body=body, now=tx.now)


def _finish(tx: Tx, row: Delivery, message: ChannelMessage, sequence: int | None) -> None:
    outbound = Outbound(row.outbound.target, message)
    tx.run(
        _q.finish,
        workspace_id=row.workspace_id,
        delivery_id=row.delivery_id,
        body=msgspec.json.encode(outbound).decode(),
        result_sequence=sequence,
        same=int(message == row.outbound.message),
        now=tx.now,
    )
