"""Deletion on request of a conversation, a run or a person's data, complete and with a receipt.

Data from before the request is deleted; data that arrives meanwhile stays, but for journals of runs that were
opened before the deletion was through: they may have read the rest of it. Rows of events and runs stay
without content, so the hash chain keeps their digests and still verifies. An interrupted or repeated deletion
continues with the rest: the events and runs through which data is found are emptied only after all files were
removed, and the receipt comes last.

Schedules that name the conversation, or the person as their actor, are removed: they would bring it back.
Items of clients (`client_items`) are of a conversation or person whose id is in their namespace or their key.
Not deleted, because it is not marked with a conversation or person: values in plugin or workspace storage and
in `runner` state, and what runs of other conversations read through a grant that crosses conversations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hostler.storage.port import Database
from hostler.storage.sealing.erasing import Eraser
from hostler.storage.stores import blobs, budget_accounts, tokens
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.deletion_receipts import DeletionReceipt
from hostler.storage.stores.deletion_steps import begin, target_of


async def _nothing() -> None:
    """Delete nothing else."""


async def delete_conversation(
    database: Database,
    folder: BlobFolder,
    ws: str,
    conversation_id: str,
    *,
    by: str,
    elsewhere: Callable[[], Awaitable[object]] = _nothing,
    eraser: Eraser | None = None,
) -> DeletionReceipt:
    """Delete all data of a conversation, with all its threads. `by`: who asked, for the audit.

    Its bytes in `folder` are gone on return, unless other rows refer to them. With `eraser`, where content
    is sealed, copies of the database and folder from before cannot be opened either. `elsewhere` deletes data
    outside of database and folder; it is awaited before the receipt is written, once or more. ConflictError
    while a run of the conversation is active, or if one began meanwhile: cancel it first. StorageError if
    bytes cannot be removed: ask again.
    """
    erasure = await begin(database, ws, target_of("conversation", conversation_id), by)
    erasure.eraser = eraser
    erasure.conversations.add(conversation_id)
    await erasure.refuse_active(conversation_id)
    await erasure.schedules_of_conversation(conversation_id)
    await erasure.contents_of_runs(conversation_id)
    await erasure.conversation_items(conversation_id)
    await erasure.conversation_files(conversation_id)
    await erasure.waiting_messages(conversation_id)
    await erasure.messages_out(conversation_id)
    await erasure.states_of_conversation(conversation_id)
    await erasure.items_named(conversation_id)
    await erasure.step("tokens", lambda tx: tokens.drop_conversation(tx, ws, conversation_id))
    await erasure.event_files(conversation_id)
    await elsewhere()
    await erasure.later_journals([conversation_id])
    await erasure.copies_of_histories([conversation_id])
    await blobs.collect(database, folder)
    await erasure.runs(conversation_id)
    await database.write(lambda tx: budget_accounts.forget_conversation(tx, ws, conversation_id))
    await erasure.conversation_events(conversation_id)
    return await erasure.finish(deleted=conversation_id)


async def delete_actor(
    database: Database,
    folder: BlobFolder,
    ws: str,
    actor_id: str,
    *,
    by: str,
    actor_type: str | None = None,
    elsewhere: Callable[[], Awaitable[object]] = _nothing,
    eraser: Eraser | None = None,
) -> DeletionReceipt:
    """Delete a person's data: their messages, the answers, and the state kept for and about them.

    Journals of the conversations they took part in are deleted too, since runs read their messages there, and
    of those in which runs had the history of their private chats, or the state of a subject that is theirs.
    That state goes, too, also what was noted from other accounts of the subject.
    Walks the event log in small steps. `actor_type` None means any type. ConflictError if a run of theirs is
    still active, or a run that began meanwhile: cancel it and ask again. `folder`, `elsewhere` and `eraser`
    as in `delete_conversation`.
    """
    erasure = await begin(database, ws, target_of("actor", actor_id), by)
    erasure.eraser = eraser
    await elsewhere()  # before the events are emptied through which it is found, and again at the end
    is_person = actor_type in {None, "user"}
    subjects = await erasure.subjects_of(actor_id) if is_person else []
    private = await erasure.private_chats_of(actor_id) if is_person else []
    if is_person:
        await erasure.accounts_of(actor_id)
    await erasure.schedules_of_actor(actor_id, actor_type)
    await erasure.copies_of_actor(actor_id, actor_type)
    await erasure.actor_events(actor_id, actor_type)
    await erasure.states_of_actor(actor_id, actor_type)
    if is_person:
        await erasure.states_of_subjects(subjects, actor_id)
        await erasure.copies_of_histories(private)
    await erasure.items_named(actor_id)
    await erasure.later_journals_of_actor(actor_id, actor_type)
    await blobs.collect(database, folder)
    await elsewhere()
    return await erasure.finish()


async def delete_run(
    database: Database,
    folder: BlobFolder,
    ws: str,
    run_id: str,
    *,
    conversation_id: str | None,
    by: str,
    eraser: Eraser | None = None,
) -> DeletionReceipt:
    """Delete what one run of a conversation heard, said and did: its messages, files, journal and pauses.

    With it go the messages that it absorbed and its child runs. Not deleted: what later runs of the
    conversation have read of it, which is in their journals, what agents noted in state, and copies of its
    messages and files in other conversations (forks). ConflictError while it is active. `folder` and `eraser`
    as in `delete_conversation`.
    """
    erasure = await begin(database, ws, target_of("run", run_id), by)
    erasure.eraser = eraser
    if conversation_id is not None:
        erasure.conversations.add(conversation_id)
    await erasure.one_run(run_id)
    await blobs.collect(database, folder)
    return await erasure.finish()
