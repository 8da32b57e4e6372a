"""State and history as runners use them, on both databases."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from support.stepping import Stage, Steps, stage, within

PLACE: dict[str, Any] = {"conversation_id": "c", "actor": {"actor_id": "u"}}


def get(key: str, scope: str = "conversation") -> list[Any]:
    return ["call", "state.get", {"scope": scope, "key": key}]


def put(key: str, value: Any, scope: str = "conversation", **more: Any) -> list[Any]:
    return ["call", "state.set", {"scope": scope, "key": key, "value": value, **more}]


async def answers(host: Stage, *calls: list[Any], **place: Any) -> list[Any]:
    """What these calls are answered in one run."""
    found: list[Any] = (await host.run([*calls, ["tell"]], **(PLACE | place))).told
    return found


def codes(found: list[Any]) -> list[str | None]:
    return [
        answer["error"]["code"] if isinstance(answer, dict) and "error" in answer else None
        for answer in found
    ]


async def test_state_in_the_snapshot_and_by_calls(tmp_path: Path, database_url: str) -> None:
    async with within(), stage(tmp_path, database=database_url) as host:
        everything = {"state_scopes": ["conversation", "actor", "subject", "runner"]}
        await host.agent(state_policy=everything)
        update = [
            "result",
            "state.updated",
            {"scope": "conversation", "key": "by-result", "value": [1, None]},
        ]
        first = await host.run(
            [
                update,
                get("by-result"),
                put("by-call", {"a": "ü\0"}),
                get("by-call"),
                get("conversation_id"),
                ["tell"],
            ],
            **PLACE,
        )
        assert first.told == [
            {"value": [1, None], "version": 1},
            {"version": 1},
            {"value": {"a": "ü\0"}, "version": 1},
            {"value": "c", "version": 0},
        ]
        context = (await host.run([["show_context"]], **PLACE)).told
        assert context["state"] == {
            "conversation": {
                "by-call": {"a": "ü\0"},
                "by-result": [1, None],
                "external.conversation_id": "c",
            },
            "actor": {},
            "subject": {},
            "runner": {},
        }
        own = await answers(host, put("conversation_id", "mine"), get("external.conversation_id"))
        assert own[1] == {"value": "mine", "version": 1}
        again = (await host.run([["show_context"]], **PLACE)).told["state"]["conversation"]
        assert again["external.conversation_id"] == "mine"
        # scopes without an identity are refused with the reason
        lone = await host.run(
            [put("k", 1), put("k", 1, "actor"), put("k", 1, "subject"), put("k", 1, "runner"), ["tell"]],
            conversation_id=None,
            actor=None,
        )
        assert codes(lone.told) == ["unauthorized"] * 3 + [None]
        assert "conversation" in lone.told[0]["error"]["message"]
        # and so is what the policy closes
        await host.agent(state_policy={"enable_state": False})
        closed = await host.run([update, get("k"), ["tell"], ["show_context"]], **PLACE)
        assert closed.types == ["message.completed", "message.completed", "run.completed"]
        assert closed.warnings
        assert json.loads(closed.said[0])[0]["error"]["code"] == "unauthorized"
        assert closed.told["state"] == {"conversation": {}, "actor": {}, "subject": {}, "runner": {}}
        assert closed.told["context"]["available_apis"]["state"] is False


async def test_state_versions_keys_and_limits(tmp_path: Path, database_url: str) -> None:
    async with within(), stage(tmp_path, database=database_url) as host:
        found = await answers(
            host,
            put("k", 1, if_version=0),
            put("k", 2, if_version=0),
            put("k", 2, if_version=1),
            put("k", 3),
            get("k"),
            ["call", "state.delete", {"scope": "conversation", "key": "k"}],
            ["call", "state.delete", {"scope": "conversation", "key": "k"}],
            get("k"),
        )
        assert codes(found) == [None, "conflict", *[None] * 6]
        assert found[1]["error"]["details"]["version"] == 1
        assert found[4] == {"value": 3, "version": 3}
        assert [found[5], found[6]] == [{"deleted": True}, {"deleted": False}]
        assert found[7]["value"] is None
        keys = ["a%b", "a_b", "axb", "a%c", "日本", "日本語", "k" * 255]
        await answers(host, *[put(key, 1, "actor") for key in keys])

        def listing(**more: Any) -> list[Any]:
            return ["call", "state.list", {"scope": "actor", **more}]

        pages = await answers(
            host,
            listing(prefix="a%"),
            listing(prefix="a_"),
            listing(prefix="日本"),
            listing(limit=3),
            listing(limit=3, cursor="$3.next_cursor"),
            listing(limit=1000),
            listing(prefix="other", cursor="$3.next_cursor"),
            ["call", "state.list", {"scope": "conversation", "cursor": "$3.next_cursor"}],
        )
        assert pages[0]["items"] == ["a%b", "a%c"]
        assert pages[1]["items"] == ["a_b"]
        assert pages[2]["items"] == ["日本", "日本語"]
        assert pages[3]["has_more"] is True
        assert sorted(pages[3]["items"] + pages[4]["items"]) == sorted(keys)[:6]
        assert len(pages[5]["items"]) == 7
        assert codes(pages[6:]) == ["invalid_argument"] * 2
        bad = await answers(
            host,
            put("", 1),
            put("k" * 256, 1),
            put("a\0b", 1),
            put("k", "v" * 262_143),
            put("k", "v" * 262_142),
            put("k", 1, "galaxy"),
            put("k", 1, "runner"),
            ["call", "state.set", {"scope": "actor", "key": "k"}],
            ["call", "state.set", {"scope": 5, "key": "k", "value": 1}],
        )
        assert codes(bad) == [
            "invalid_argument",
            "invalid_argument",
            "invalid_argument",
            "payload_too_large",
            None,
            "invalid_argument",
            "unauthorized",
            "invalid_argument",
            "invalid_argument",
        ]


async def test_state_is_isolated(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent("other")
        await answers(host, put("k", "secret"), put("k", "secret", "actor"))
        for place in (
            {"agent": "other"},
            {"conversation_id": "d", "actor": {"actor_id": "v"}},
            {"bot_id": "b"},
            {"thread_id": "t", "actor": {"actor_id": "u:"}},
        ):
            found = await answers(host, get("k"), get("k", "actor"), **place)
            assert [answer["version"] for answer in found] == [0, 0], place
        assert (await answers(host, get("k"), get("k", "actor")))[1]["value"] == "secret"
        # an actor is the same in every conversation
        assert (await answers(host, get("k", "actor"), conversation_id="d"))[0]["value"] == "secret"


WORDS = [
    "The quick brown fox",
    "今天天气很好，我们去公园散步吧",
    "東京タワーに行きたいです",
    "100% sure_thing",
    "Größe und ÄRGER",
]


FOUND: dict[str, list[int]] = {
    "quick": [0],
    "QUICK fox": [0],
    "天气": [1],
    "公园": [1],
    "タワー": [2],
    "東京": [2],
    "%": [3],
    "sure_thing": [3],
    "sureXthing": [],
    "größe": [4],
    "ärger": [4],
    "天京": [],
}


async def test_words_are_found_in_any_script(tmp_path: Path, database_url: str) -> None:
    async with within(), stage(tmp_path, database=database_url) as host:
        for text in WORDS:
            message = {"message": {"role": "assistant", "content": text}}
            await host.run([["result", "message.completed", message]], **PLACE)
        role = {"role": "assistant"}
        calls = [["call", "history.search", {"query": query, "filters": role}] for query in FOUND]
        for (query, expected), found in zip(FOUND.items(), await answers(host, *calls), strict=True):
            assert [item["content"] for item in found["items"]] == [WORDS[n] for n in expected], query
            assert (found["query"], found["total_count"]) == (query, len(expected))


async def test_history_pages(tmp_path: Path, database_url: str) -> None:
    async with within(), stage(tmp_path, database=database_url) as host:
        steps: Steps = [["say", "a"], ["say", "b"]]
        for _ in range(3):
            await host.run(steps, **PLACE)

        def page(**more: Any) -> list[Any]:
            return ["call", "history.page", more]

        found = await answers(
            host,
            page(limit=4),
            page(limit=4, before_cursor="$0.next_cursor"),
            page(limit=4, before_cursor="$1.next_cursor"),
            page(limit=4, direction="forward"),
            page(limit=4, direction="forward", after_cursor="$3.next_cursor"),
            page(limit=100_000),
            page(limit=0),
        )
        backward = [item["seq"] for answer in found[:3] for item in answer["items"]]
        assert backward == sorted(backward, reverse=True)
        assert len(backward) == 9
        assert [found[i]["has_more"] for i in range(3)] == [True, True, False]
        forward = [item["seq"] for answer in found[3:5] for item in answer["items"]]
        assert forward == sorted(backward)[:8]
        assert [item["content"] for item in found[5]["items"]][:2] == ["b", "a"]
        assert codes(found)[6] == "invalid_argument"


async def test_history_ends_before_the_run_and_stays_in_its_place(tmp_path: Path, database_url: str) -> None:
    async with within(), stage(tmp_path, database=database_url) as host:
        page = ["call", "history.page", {}]
        search = ["call", "history.search", {"query": "secret"}]
        await host.run([["say", "secret here"]], **PLACE)
        await host.run([["say", "secret there"]], conversation_id="d")
        await host.run([["say", "secret thread"]], conversation_id="c", thread_id="t")
        await host.run([["say", "secret bot"]], conversation_id="c", bot_id="b")
        await host.run([["say", "secret of nobody"]], conversation_id=None)
        own = await host.run([["show_context"], page, search, ["tell"]], **PLACE)
        context = json.loads(own.said[0])
        said = [item["content"] for item in own.told[0]["items"] if item["role"] == "assistant"]
        assert said == ["secret here"]
        assert len(own.told[0]["items"]) == 2
        assert context["context"]["has_history_before"] is True
        assert own.told[0]["items"][0]["cursor"] == context["context"]["latest_cursor"]
        assert own.told[0]["items"][0]["seq"] == context["context"]["transcript_seq"]
        assert {item["conversation_id"] for item in own.told[1]["items"]} == {"c"}
        # without a conversation there is no history
        lone = await host.run([["show_context"], page, search, ["tell"]])
        assert [answer["items"] for answer in lone.told] == [[], []]
        assert (lone.told[0]["has_more"], lone.told[1]["total_count"]) == (False, 0)
        assert json.loads(lone.said[0])["context"]["has_history_before"] is False
        assert json.loads(lone.said[0])["context"]["latest_cursor"] is None
        # another conversation needs a grant
        other = ["call", "history.page", {"conversation_id": "d"}]
        assert codes(await answers(host, other)) == ["not_found"]
        await host.agent(resource_policy={"allow_cross_conversation_history": True})
        there = await answers(host, other)
        assert [i["content"] for i in there[0]["items"] if i["role"] == "assistant"] == ["secret there"]


async def test_cursors_are_good_only_where_they_were_issued(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.run([["say", "x"]], **PLACE)
        await host.run([["say", "x"]], conversation_id="d")
        mine = await answers(
            host, ["call", "history.page", {"limit": 1}], ["call", "event.page", {"limit": 1}]
        )
        cursor, event_cursor = mine[0]["items"][0]["cursor"], mine[1]["items"][0]["cursor"]
        assert cursor.replace("-", "").replace("_", "").isalnum()

        def used(value: str) -> list[list[Any]]:
            return [
                ["call", "history.page", {"before_cursor": value}],
                ["call", "history.page", {"after_cursor": value, "direction": "forward"}],
                ["call", "event.page", {"before_cursor": value}],
                ["call", "run.list", {"before_cursor": value}],
                ["call", "state.list", {"scope": "conversation", "cursor": value}],
            ]

        assert codes(await answers(host, *used(cursor))) == [None, None, *["invalid_argument"] * 3]
        refused = ["invalid_argument"] * 5
        assert codes(await answers(host, *used(cursor), conversation_id="d")) == refused
        assert codes(await answers(host, *used(cursor), bot_id="b")) == refused
        assert codes(await answers(host, *used(cursor[:-1] + ("A" if cursor[-1] != "A" else "B")))) == refused
        wrong = codes(await answers(host, *used(event_cursor)))
        assert wrong == [
            "invalid_argument",
            "invalid_argument",
            None,
            "invalid_argument",
            "invalid_argument",
        ]


async def test_events_of_the_conversation(tmp_path: Path, database_url: str) -> None:
    async with within(), stage(tmp_path, database=database_url) as host:
        long = "long " * 500
        first = await host.send([["say", "x"]], event_id="e1", raw_ref="raw", **PLACE)
        assert first.run is not None
        await host.ended(first.run.run_id)
        await host.send([["say", long]], event_id="e2", conversation_id="d")
        joined = await host.send([], event_type="group.member_joined", event_id="e3", **PLACE)
        assert joined.run is not None
        await host.ended(joined.run.run_id)
        found = await answers(
            host,
            ["call", "event.page", {}],
            ["call", "event.page", {"event_types": ["group.member_joined"]}],
            ["call", "event.get", {"event_id": "e1"}],
            ["call", "event.get", {"event_id": "e2"}],
            ["call", "event.get", {"event_id": "nowhere"}],
            ["call", "history.page", {}],
            event_id="own",
        )
        assert [event["event_id"] for event in found[0]["items"]] == ["e3", "e1"]
        assert [event["event_id"] for event in found[1]["items"]] == ["e3"]
        assert found[2]["raw_ref"] == "raw"
        assert "x" in found[2]["input_summary"]
        assert len(found[2]["input_summary"]) <= 1000
        assert codes(found[3:5]) == ["not_found", "not_found"]
        assert found[3]["error"]["message"].replace("e2", "") == found[4]["error"]["message"].replace(
            "nowhere", ""
        )
        # an event that is no message is never dressed up as one
        assert "e3" not in [item.get("event_id") for item in found[5]["items"]]


async def test_large_parameters_stand_in_the_journal_by_their_digest(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        content = base64.b64encode(bytes(300_000)).decode()
        place = {"area": "plugin", "key": "k"}
        ended = await host.run(
            [
                ["call", "storage.set", {**place, "content_base64": content}],
                ["call", "storage.get", place],
                ["call", "storage.set", {**place, "key": "l", "content_base64": "$1.content_base64"}],
                ["call", "storage.get", {**place, "key": "l"}],
                ["result", "run.completed", {}],
            ],
            **PLACE,
        )
        stored = ended.entries("call", "storage.set")
        encoded = json.dumps(content).encode()
        for entry in stored:
            shown = entry["data"]["params"]["content_base64"]
            assert shown == {"size_bytes": len(encoded), "sha256": hashlib.sha256(encoded).hexdigest()}
            assert "error" not in entry["data"]
        assert stored[0]["data"]["params"]["key"] == "k"
        # a large answer lies in the blob folder
        read = ended.entries("call", "storage.get")
        assert all(entry["blob"] is not None for entry in read)
        whole = b"".join([piece async for piece in host.host.blobs.stream(read[1]["blob"])])
        assert json.loads(whole)["reply"] == {"content_base64": content}


async def test_storage_of_plugin_and_workspace(tmp_path: Path, database_url: str) -> None:
    async with within(), stage(tmp_path, database=database_url) as host:

        def store(verb: str, area: str, **more: Any) -> list[Any]:
            return ["call", f"storage.{verb}", {"area": area, **more}]

        found = await answers(
            host,
            store("set", "plugin", key="a_b", content_base64="eA=="),
            store("get", "plugin", key="a_b"),
            store("get", "plugin", key="axb"),
            store("keys", "plugin", prefix="a_"),
            store("set", "workspace", key="k", content_base64="eA=="),
            store("delete", "plugin", key="a_b"),
            store("get", "plugin", key="a_b"),
        )
        assert found[1]["content_base64"] == "eA=="
        assert found[3]["items"] == ["a_b"]
        assert codes(found)[4] == "unauthorized"
        assert found[5] == {"deleted": True}
        assert found[6] == found[2]
