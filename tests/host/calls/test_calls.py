"""Host calls on a real database: what they answer, and that nothing outside the grant is reached."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.calls.functions import CALL_FUNCTIONS, LEDGER_CALLS, STREAM_FUNCTIONS
from hostler.domain.granted_resources import Catalog
from hostler.domain.model_entries import ModelEntry, Price
from hostler.models.catalog import build_catalog
from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.calls import CALLS, ModelChunk, ModelReply
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError, UnauthorizedError
from hostler_protocol.grants import FileResource
from hostler_protocol.manifest import FormItem
from support.call_world import World, world_of
from support.databases import run
from support.grants import ResourcePolicy, agent_of, event_of, grant_of, manifest_of
from support.model_server import ModelServer

Test = Callable[[World], Awaitable[None]]


@pytest.fixture
def inside(database: SqlDatabase, tmp_path: Path) -> Callable[[Test], None]:
    """Runs a test's coroutine inside the world."""

    def go(test: Test) -> None:
        async def body() -> None:
            async with world_of(database, tmp_path) as world:
                await test(world)

        run(body())

    return go


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_every_call_is_carried_out_in_one_place() -> None:
    places = [*CALL_FUNCTIONS, *STREAM_FUNCTIONS, *LEDGER_CALLS]
    assert sorted(places) == sorted(CALLS)
    assert set(STREAM_FUNCTIONS) == {method for method, call in CALLS.items() if call.chunk is not None}


# -- history and events -----------------------------------------------------------------------------------


def test_history_ends_before_the_runs_own_event_and_stays_in_its_place(
    inside: Callable[[Test], None],
) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        for direction in ("backward", "forward"):
            page = await caller.call("history.page", direction=direction)
            assert [item.content for item in page.items] == ["hello from main e-before"]
            assert not page.has_more
        found = await caller.call("history.search", query="hello")
        assert [item.content for item in found.items] == ["hello from main e-before"]
        assert await caller.refused("history.page", conversation_id="c2") == "not_found"
        assert (
            await caller.refused("history.search", query="x", filters={"conversation_id": "c2"})
            == "not_found"
        )
        nowhere = world.caller(event=event_of(event_id="e-own", conversation_id=None))
        assert (await nowhere.call("history.page")).items == []
        assert (await nowhere.call("history.search", query="hello")).items == []

    inside(test)


def test_another_conversation_is_read_only_with_an_explicit_grant(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        policy = ResourcePolicy(allow_cross_conversation_history=True)
        caller = world.caller(grant=grant_of(agent=agent_of(resource_policy=policy)))
        page = await caller.call("history.page", conversation_id="c2")
        assert [item.content for item in page.items] == ["hello from main e-elsewhere"]
        own = await caller.call("history.page", conversation_id="c1")
        assert [item.content for item in own.items] == ["hello from main e-before"]

    inside(test)


def test_cursors_lead_on_and_are_good_for_nothing_else(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller(grant=None)
        caller.history_before = 1_000
        first = await caller.call("history.page", limit=1)
        second = await caller.call("history.page", limit=1, before_cursor=first.next_cursor)
        third = await caller.call("history.page", limit=1, before_cursor=second.next_cursor)
        texts = [page.items[0].content.split()[-1] for page in (first, second, third)]
        assert texts == ["e-after", "e-own", "e-before"]
        assert third.next_cursor is None
        back = await caller.call("history.page", direction="forward", after_cursor=third.items[0].cursor)
        assert [item.content.split()[-1] for item in back.items] == ["e-own", "e-after"]

        cursor = first.next_cursor
        foreign = world.caller("other")
        elsewhere = world.caller(event=event_of(event_id="e-own", conversation_id="c2"))
        for other in (foreign, elsewhere):
            assert await other.refused("history.page", before_cursor=cursor) == "invalid_argument"
        for method in ("event.page", "run.list"):
            assert await caller.refused(method, before_cursor=cursor) == "invalid_argument"
        for method in ("state.list", "storage.keys"):
            assert await caller.refused(method, cursor=cursor) == "invalid_argument"
        forged = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
        assert await caller.refused("history.page", before_cursor=forged) == "invalid_argument"

    inside(test)


def test_events_within_reach(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        page = await caller.call("event.page")
        assert [record.event_id for record in page.items] == ["e-before"]
        assert page.items[0].workspace_id == "main"
        assert (await caller.call("event.page", event_types=["other"])).items == []
        for event_id, code in {
            "e-own": "ok",
            "e-before": "ok",
            "e-after": "not_found",
            "e-elsewhere": "not_found",
            "e-bot": "not_found",
            "e-thread": "not_found",
            "e-nowhere": "not_found",
            "no-such-event": "not_found",
        }.items():
            assert await caller.refused("event.get", event_id=event_id) == code, event_id

    inside(test)


def test_existing_and_absent_things_are_refused_alike(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        elsewhere = world.caller(name="elsewhere", event=event_of(event_id="e-own", conversation_id="c2"))
        hidden_artifact = await elsewhere.call("artifact.upload")
        foreign, absent = world.runs["other", "own"], "0" * 36
        for method, parameter, hidden in (
            ("event.get", "event_id", "e-elsewhere"),
            ("run.get", "target_run_id", foreign),
            ("artifact.read", "artifact_id", hidden_artifact.artifact_id),
        ):
            messages = []
            for name in (hidden, absent):
                with pytest.raises(NotFoundError) as caught:
                    await caller.call(method, **{parameter: name})
                messages.append(caught.value.message.replace(name, "<id>"))
                assert caught.value.details == {}
            assert messages[0] == messages[1]

    inside(test)


# -- state and storage ------------------------------------------------------------------------------------


def test_state_is_written_read_listed_and_deleted(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        assert (await caller.call("state.get", scope="actor", key="k")).version == 0
        assert (await caller.call("state.set", scope="actor", key="k", value={"a": [1]})).version == 1
        got = await caller.call("state.get", scope="actor", key="k")
        assert (got.value, got.version) == ({"a": [1]}, 1)
        with pytest.raises(ConflictError, match="has version 1, not 7") as caught:
            await caller.call("state.set", scope="actor", key="k", value=2, if_version=7)
        assert caught.value.details == {"version": 1}
        await caller.call("state.set", scope="actor", key="k_", value=2)
        await caller.call("state.set", scope="actor", key="kx", value=3)
        page = await caller.call("state.list", scope="actor", limit=2)
        assert (page.items, page.has_more) == (["k", "k_"], True)
        rest = await caller.call("state.list", scope="actor", cursor=page.next_cursor)
        assert (rest.items, rest.has_more) == (["kx"], False)
        assert (await caller.call("state.list", scope="actor", prefix="k_")).items == ["k_"]
        assert (await caller.call("state.delete", scope="actor", key="k")).deleted
        assert not (await caller.call("state.delete", scope="actor", key="k")).deleted
        assert (await caller.call("state.list", scope="conversation")).items == []

    inside(test)


def test_the_conversations_own_id_is_there_until_it_is_set(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        for key in ("conversation_id", "external.conversation_id"):
            got = await caller.call("state.get", scope="conversation", key=key)
            assert (got.value, got.version) == ("c1", 0)
        await caller.call(
            "state.set", scope="conversation", key="conversation_id", value="theirs", if_version=0
        )
        assert (
            await caller.call("state.get", scope="conversation", key="external.conversation_id")
        ).value == "theirs"
        listed = await caller.call("state.list", scope="conversation", prefix="conversation_id")
        assert listed.items == ["external.conversation_id"]
        assert (await caller.call("state.get", scope="actor", key="conversation_id")).value is None

    inside(test)


def test_state_and_storage_of_others_are_never_seen(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        own = world.caller()
        others = {
            "other workspace": world.caller("other"),
            "other agent": world.caller(agent="stranger"),
            "other actor": world.caller(event=event_of(event_id="e-own", actor_id="bob")),
        }
        await own.call("state.set", scope="actor", key="k", value="mine")
        await own.call("storage.set", area="workspace", key="k", content_base64=b64(b"ours"))
        for name, other in others.items():
            assert (await other.call("state.get", scope="actor", key="k")).value is None, name
        assert (
            await others["other workspace"].call("storage.get", area="workspace", key="k")
        ).content_base64 is None
        shared = await others["other agent"].call("storage.get", area="workspace", key="k")
        assert shared.content_base64 == b64(b"ours"), "workspace storage is shared by its agents"

    inside(test)


def test_storage_areas_are_apart(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        await caller.call("storage.set", area="plugin", key="k", content_base64=b64(b"\x00plugin"))
        await caller.call("storage.set", area="workspace", key="k", content_base64=b64(b""))
        assert (await caller.call("storage.get", area="plugin", key="k")).content_base64 == b64(b"\x00plugin")
        assert (await caller.call("storage.get", area="workspace", key="k")).content_base64 == ""
        assert (await caller.call("storage.keys", area="plugin")).items == ["k"]
        assert (await caller.call("storage.delete", area="plugin", key="k")).deleted
        assert (await caller.call("storage.get", area="plugin", key="k")).content_base64 is None
        assert (await caller.call("storage.keys", area="workspace")).items == ["k"]
        assert await caller.refused("storage.set", content_base64="a$==") == "invalid_argument"

    inside(test)


# -- runs ---------------------------------------------------------------------------------------------------


def test_runs_within_reach(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        ids = {
            name: world.runs["main", name]
            for name in ("before", "own", "child", "elsewhere", "thread", "stranger")
        }
        reach = {"before": "ok", "own": "ok", "child": "ok"}
        for name, run_id in [*ids.items(), ("foreign", world.runs["other", "own"])]:
            for method in ("run.get", "run.events", "run.cancel"):
                code = await caller.refused(method, target_run_id=run_id)
                assert code == reach.get(name, "not_found"), (name, method)
        assert (await caller.call("run.get")).run_id == ids["own"]
        page = await caller.call("run.list")
        assert {record.run_id for record in page.items} == {ids["own"], ids["before"]}
        first = await caller.call("run.list", limit=1)
        second = await caller.call("run.list", limit=1, before_cursor=first.next_cursor)
        assert [record.run_id for record in (*first.items, *second.items)] == [r.run_id for r in page.items]
        assert not second.has_more
        assert (await caller.call("run.list", statuses=["completed"])).items == []
        journal = await caller.call("run.events")
        assert journal.items[0].kind == "lifecycle"
        assert (await caller.call("run.events", after=journal.items[-1].position)).items == []

    inside(test)


def test_cancelling_is_asked_for_and_told_by_whom(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        record = await caller.call("run.cancel", target_run_id=world.runs["main", "before"], reason="enough")
        assert record.run_id == world.runs["main", "before"]
        assert record.status == "cancelled", "it was only queued"

    inside(test)


def test_a_child_run_stays_in_the_conversation_or_leaves_it(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        await caller.call("run.create", conversation_id="c1")
        await caller.call("run.create")
        assert await caller.refused("run.create", conversation_id="c2") == "not_found"
        assert [params.conversation_id for params in world.controller.created] == ["c1", None]

    inside(test)


# -- the rest -----------------------------------------------------------------------------------------------


def test_calls_without_anything_behind_them(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        assert (await caller.call("host.info")).name == "hostler"
        assert (await caller.call("prompt.get")).prompt == []
        assert await caller.refused("tool.detail") == "not_found"
        assert await caller.refused("knowledge.retrieve") == "not_found"
        assert await caller.refused("file.get") == "not_found"
        assert await caller.refused("steering.pull") == "unauthorized"
        for method in ("run.append", "run.finalize"):
            with pytest.raises(UnauthorizedError, match="remote workers"):
                await caller.call(method)

    inside(test)


async def test_models_answer_are_streamed_counted_and_paid_for(database: SqlDatabase, tmp_path: Path) -> None:
    async with ModelServer() as server:
        models = build_catalog(
            [
                ModelEntry(
                    id="gpt", base_url=server.base_url, api_key="k", price=Price(input=1.0, output=2.0)
                ),
                ModelEntry(id="judge", base_url=server.base_url, api_key="k", type="rerank"),
            ]
        )
        async with world_of(database, tmp_path, models) as world:
            caller = world.caller()
            server.say("whole")
            reply = await caller.call("model.invoke")
            assert reply.message.content == "whole"
            server.say(["in ", "pieces"])
            *chunks, last = await caller.call("model.stream")
            assert all(isinstance(chunk, ModelChunk) for chunk in chunks)
            assert isinstance(last, ModelReply)
            assert last.message.content == "in pieces"
            assert caller.meter.usage is not None
            assert caller.meter.usage.total_tokens == 36
            assert float(caller.meter.cost) == pytest.approx(2 * (11 + 2 * 7) / 1_000_000)
            assert (await caller.call("model.count_tokens")).input_tokens > 0
            server.raw(b'{"results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":0.1}]}')
            ranked = await caller.call("model.rerank")
            assert [item.index for item in ranked.items] == [1, 0]


def test_errors_of_arguments_name_the_parameter(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        with pytest.raises(InvalidArgumentError, match="before_cursor"):
            await world.caller().call("history.page", before_cursor="nonsense")

    inside(test)


# -- artifacts and files ------------------------------------------------------------------------------------


def test_an_upload_in_parts_becomes_an_artifact_of_the_conversation(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller = world.caller()
        first = await caller.call("artifact.upload", content_base64=b64(b"abc"), last=False)
        assert first.artifact_id is None
        last = await caller.call(
            "artifact.upload",
            upload_id=first.upload_id,
            part=1,
            content_base64=b64(b"defg"),
            last=True,
            name="x.txt",
            mime_type="text/plain",
            size_bytes=7,
            metadata={"k": 1},
            expires_in=60,
        )
        assert last.artifact_id in caller.uploads, "the runner may announce it"
        for other in (caller, world.caller(name="before"), world.caller(name="stranger", agent="stranger")):
            found = await other.call("artifact.metadata", artifact_id=last.artifact_id)
            assert (found.name, found.size_bytes, found.run_id) == ("x.txt", 7, caller.run_id)
            assert found.expires_at is not None
        part = await caller.call("artifact.read", artifact_id=last.artifact_id, offset=2, limit=3)
        assert (part.content_base64, part.length, part.has_more) == (b64(b"cde"), 3, True)
        end = await caller.call("artifact.read", artifact_id=last.artifact_id, offset=5)
        assert (end.content_base64, end.has_more) == (b64(b"fg"), False)
        past = await caller.call("artifact.read", artifact_id=last.artifact_id, offset=500)
        assert (past.content_base64, past.length, past.has_more) == ("", 0, False)

    inside(test)


def test_artifacts_are_read_by_whom_they_concern(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        made = await world.caller().call("artifact.upload")
        artifact_id = made.artifact_id
        elsewhere = event_of(event_id="e-own", conversation_id="c2")
        outsiders = {
            "another conversation": world.caller(name="elsewhere", event=elsewhere),
            "another thread": world.caller(name="thread", event=event_of(event_id="e-own", thread_id="t2")),
            "another bot": world.caller(name="before", event=event_of(event_id="e-own", bot_id="b2")),
            "no conversation": world.caller(
                name="child", event=event_of(event_id="e-own", conversation_id=None)
            ),
            "another workspace": world.caller("other"),
        }
        for name, outsider in outsiders.items():
            for method in ("artifact.read", "artifact.metadata"):
                assert await outsider.refused(method, artifact_id=artifact_id) == "not_found", name
        # whoever sent the event may show it to the run
        for given in ({"attachments": [{"artifact_id": artifact_id}]}, {"contents": [_element(artifact_id)]}):
            shown = event_of(event_id="e-own", conversation_id="c2", given=given)
            assert (
                await world.caller(name="elsewhere", event=shown).refused(
                    "artifact.read", artifact_id=artifact_id
                )
                == "ok"
            )

    inside(test)


def _element(artifact_id: str) -> dict[str, Any]:
    return {"type": "artifact", "artifact_id": artifact_id}


def test_uploads_are_the_runs_own_and_declared_truly(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        caller, other = world.caller(), world.caller(name="before")
        begun = await caller.call("artifact.upload", last=False)
        theirs = {"upload_id": begun.upload_id, "part": 1}
        assert await other.refused("artifact.upload", **theirs) == "not_found"
        assert (
            await caller.refused("artifact.upload", upload_id=begun.upload_id, part=7) == "invalid_argument"
        )
        assert await caller.refused("artifact.upload", size_bytes=6) == "invalid_argument"
        assert await caller.refused("artifact.upload", sha256="0" * 64) == "invalid_argument"
        assert await caller.refused("artifact.upload", size_bytes=5) == "ok"

    inside(test)


async def test_a_model_sees_the_attachments_that_the_run_may_see(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with ModelServer() as server:
        models = build_catalog([ModelEntry(id="gpt", base_url=server.base_url, api_key="k")])
        async with world_of(database, tmp_path, models) as world:
            png = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
            made = await world.caller().call(
                "artifact.upload", content_base64=b64(png), mime_type="image/png"
            )
            messages = [{"role": "user", "content": [_element(made.artifact_id)]}]
            server.always("seen")
            await world.caller().call("model.invoke", messages=messages)
            assert b64(png).encode() in server.requests[-1].body
            elsewhere = event_of(event_id="e-own", conversation_id="c2")
            outsider = world.caller(name="elsewhere", event=elsewhere)
            await outsider.call("model.invoke", messages=messages)
            assert b64(png).encode() not in server.requests[-1].body
            assert b"no longer available" in server.requests[-1].body


def test_a_file_of_the_configuration_is_read_in_ranges(inside: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        made = await world.caller(event=event_of(event_id="e-own", conversation_id="c2")).call(
            "artifact.upload"
        )
        file_id = made.artifact_id
        resources = Catalog(
            files={file_id: FileResource(file_id=file_id), "gone": FileResource(file_id="gone")}
        )
        form = [FormItem(name="paper", type="array[file]")]
        grant = grant_of(
            manifest=manifest_of(form=form), config={"paper": [file_id, "gone"]}, catalog=resources
        )
        caller = world.caller(grant=grant)
        got = await caller.call("file.get", file_id=file_id, offset=1, limit=2)
        assert (got.content_base64, got.size_bytes, got.has_more) == (b64(b"yt"), 5, True)
        assert await caller.refused("file.get", file_id="gone") == "not_found"
        assert await caller.refused("file.get", file_id="other") == "not_found"

    inside(test)
