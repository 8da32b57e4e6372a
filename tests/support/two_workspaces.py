"""Two workspaces with the same ids everywhere, on one host: what each has tells whose it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx

from hostler.domain.budgets import Account, AccountLimits, Names
from hostler.domain.keys import state_value_of
from hostler.domain.knowledge import KnowledgeBase
from hostler.domain.place import Place
from hostler.domain.quotas import UNBOUNDED
from hostler.domain.reservations import Need
from hostler.domain.schedules import Schedule
from hostler.domain.scopes import StateArea
from hostler.secrets.key_ring import KeyRing, new_key
from hostler.storage.port import Tx
from hostler.storage.stores import api_keys as keys
from hostler.storage.stores import (
    artifacts,
    budgets,
    client_items,
    members,
    notices,
    outbox,
    pairing_codes,
    people,
    remote_workers,
    schedules,
    settings,
    tokens,
)
from hostler.storage.stores import state_values as states
from hostler.storage.stores.artifacts import NewArtifact
from hostler.storage.stores.budgets import Charge
from hostler.storage.stores.outbox_rows import NewDelivery, Outbound
from hostler.storage.stores.people import ChannelAccount
from hostler.storage.stores.remote_workers import Joining
from hostler.tools.knowledge.bases import Upload
from hostler_protocol.channels import ChannelMessage, ChannelTarget
from support.http_host import OTHER, WORKSPACE, Served
from support.loopback import NO_CERTIFICATES
from support.pauses import call, open_pause, open_run, park

SAME_CRON = "01900000-0000-7000-8000-000000000001"
THEIR_CRON = "01900000-0000-7000-8000-000000000002"
"""Ids of crons of LangGraph: of both workspaces, and of the other one alone."""
SECRET = "only-in-the-other-workspace"


@dataclass
class Things:
    """Ids that exist in both workspaces (the same), and those that only the other one has."""

    run_id: str
    key_id: str
    pause_id: str
    delivery_id: str
    member_id: str
    token_id: str


async def fill(served: Served, workspace: str, text: str) -> tuple[httpx.AsyncClient, Things]:
    """The same ids in a workspace, with content that tells whose it is."""
    await served.agent("puppet", workspace, metadata={"whose": text})
    token = await served.key(workspace, "admin", name=text)
    headers = {"authorization": f"Bearer {token}"}
    client = httpx.AsyncClient(base_url=served.url, headers=headers, timeout=60, verify=NO_CERTIFICATES)
    answer = await client.post(
        "/v1/events",
        params={"wait": 30},
        json={
            "event_type": "message.received",
            "input": {"text": f"say 0 {text}"[:5] + f"{len(text)}"},
            "event_id": "same",
            "conversation_id": "same",
            "actor": {"actor_id": text},
            "data": {"whose": text},
        },
    )
    assert answer.status_code == 200, answer.text
    blob = await served.host.blobs.put(text.encode())

    def store(tx: Any) -> tuple[str, str, str]:
        artifacts.create(
            tx,
            workspace,
            NewArtifact(
                artifact_type="file",
                blob=blob,
                source="upload",
                artifact_id="same",
                name=text,
                place=Place(conversation_id="same"),
            ),
        )
        area = StateArea("conversation", "0" * 64, "agent", "same", None, None)
        states.set(tx, workspace, area, "whose", state_value_of(text))
        for namespace in ("same", text):
            client_items.put(tx, workspace, [namespace], "same", {"whose": text}, bounds=UNBOUNDED)
        for owner in ("same", "theirs") if workspace == OTHER else ("same",):
            account = Account("run", owner, AccountLimits(calls=5), names=Names(agent=text))
            budgets.charge(tx, Charge(workspace, [account], Need()))
        for cron in (SAME_CRON, THEIR_CRON) if workspace == OTHER else (SAME_CRON,):
            timed = Schedule(name=f"cron-{cron}", cron="@daily", agent="puppet", text=text)
            schedules.put(tx, workspace, timed, text)
        for name in ("same", "theirs") if workspace == OTHER else ("same",):
            schedules.put(tx, workspace, Schedule(name=name, every=86_400.0, text=text), text)
            entry = {"name": name, "channel": "plugin:test/none/chat", "failure_text": text, "enabled": False}
            settings.put(tx, workspace, "channel", name, entry)
            hers = ChannelAccount(channel=name, person_id=text, name=text)
            people.bind(tx, workspace, hers, text, how="operator", by=text)
            pairing_codes.ask(tx, workspace, ChannelAccount(channel=name, person_id="b", name=text), text)
            said = Outbound(ChannelTarget(chat_id=text), ChannelMessage(text=text))
            outbox.add(tx, workspace, NewDelivery(delivery_id=name, channel=text, outbound=said))
            remote_workers.join(tx, worker_of(workspace, name, text), stale_ms=1, connected_here=False)
        key, _ = keys.create(tx, workspace, name=text, subject=text, rights=["admin"])
        member = members.add(tx, workspace, email=f"{text}@example.org", name=text, role="reader", by="test")
        token, _ = tokens.create(
            tx,
            workspace,
            made_by=key.key_id,
            agent=text,
            conversation_id=text,
            milliseconds=60_000_000,
            rights=["runs:read"],
        )
        return key.key_id, member.member_id, token.token_id

    key_id, member_id, token_id = await served.host.db.write(store)
    for name in ("same", "theirs") if workspace == OTHER else ("same",):
        await keep_knowledge(served, workspace, name, text)
    pause_id, delivery_id = await served.host.db.write(lambda tx: wait_for_people(tx, workspace, text))
    return client, Things(answer.json()["run_id"], key_id, pause_id, delivery_id, member_id, token_id)


async def keep_knowledge(served: Served, workspace: str, name: str, text: str) -> None:
    """A knowledge base with a document."""
    bases = served.host.bases
    assert bases is not None
    await bases.create(workspace, KnowledgeBase(kb_id=name, name=text, description=text), text)
    for document in {f"{name}.md", "same.md"}:
        upload = Upload(name=document, mime_type="text/markdown", metadata={"whose": text})
        await bases.put_document(workspace, name, upload, _bytes_of(f"It is about {text}."), text)
    async with asyncio.timeout(100):
        while not await bases.search(workspace, name, "about", 1, {"document": "same.md"}):
            await asyncio.sleep(0.02)


async def _bytes_of(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


def worker_of(workspace: str, name: str, text: str) -> Joining:
    """A remote worker that registers."""
    return Joining(
        workspace_id=workspace,
        worker_id=name,
        process=text,
        session=text,
        host_id="none",
        labels=("gpu",),
        slots=1,
        version=text,
        machine={"system": text},
        key_id=text,
    )


def wait_for_people(tx: Tx, workspace: str, text: str) -> tuple[str, str]:
    """A run that waits, and a webhook that is told of it; the ids of the pause and the delivery."""
    hook = {"name": text, "url": "https://hooks.invalid/", "secret": "env:HOSTLER_TEST_NO_SUCH_SECRET"}
    settings.put(tx, workspace, notices.WEBHOOK, text, hook)
    run_id = f"waits in {workspace}"
    open_run(tx, run_id, workspace, conversation_id="same", requester=text)
    pause = open_pause(
        tx, call(f"{workspace}-call", title=text), run_id=run_id, pause_id=f"pause in {workspace}"
    )
    park(tx, run_id)
    (delivery,) = notices.deliveries(tx, workspace)
    return pause.pause_id, delivery.delivery_id


async def keep_secrets(served: Served) -> None:
    """A secret of one name in both workspaces, and one that only the other has."""
    served.host.master_key.key_ring.replace(KeyRing([new_key()]))
    for workspace, name in ((WORKSPACE, "same"), (OTHER, "same"), (OTHER, "theirs")):
        await served.host.secrets.set(workspace, "workspace", name, SECRET, workspace)
