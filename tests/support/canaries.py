"""One run that leaves a canary in every place where a host stores content, and the search for them."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action, ActRequest
from hostler.host.config import ConfigFile
from hostler.storage.port import Tx
from hostler.storage.stores import idempotency
from hostler_protocol.events import Input
from support.stepping import STEPPER, WORKSPACE, Stage
from support.trust import plugin_entry

SHOP = Path(__file__).parents[2] / "examples" / "shop"
ADMIN = Caller(WORKSPACE, "admin", "admin", frozenset({"admin"}), frozenset({"installation"}))
PLACES = (
    "text",
    "actorname",
    "actordata",
    "subject",
    "metadata",
    "inputfile",
    "filename",
    "said",
    "delta",
    "large",
    "artifact",
    "artifactname",
    "upload",
    "conversationstate",
    "actorstate",
    "runnerstate",
    "pluginvalue",
    "workspacevalue",
    "toolargument",
    "comment",
    "cancelled",
    "waiting",
    "edited",
    "answer",
    "reminder",
)


@dataclass
class Canaries:
    """A word for each place, by its name; `prefix` makes those of several conversations differ."""

    prefix: str = "kanarie"
    words: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.words = {place: f"{self.prefix}{place}{len(place):02d}q" for place in PLACES}

    def __getattr__(self, place: str) -> str:
        try:
            return self.words[place]
        except KeyError:
            raise AttributeError(place) from None

    def found_in(self, data: bytes) -> set[str]:
        """The places whose canary is in some bytes."""
        folded = data.lower()
        return {place for place, word in self.words.items() if word.encode() in folded}


def bytes_of(root: Path) -> dict[Path, bytes]:
    """Every file below a folder."""
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def leaks(root: Path, canaries: Canaries) -> dict[str, set[str]]:
    """The canaries in the files below a folder, by file."""
    found = {str(path.relative_to(root)): canaries.found_in(data) for path, data in bytes_of(root).items()}
    return {name: places for name, places in found.items() if places}


async def configure(stage: Stage, folder: Path) -> None:
    """An agent that may do what `leave` needs, and the shop's tools."""
    shop = folder / "shop"
    shutil.copytree(
        SHOP, shop, ignore=shutil.ignore_patterns("*.sqlite3*", "__pycache__"), dirs_exist_ok=True
    )
    await stage.host.apply(ConfigFile(plugins=[plugin_entry(STEPPER), str(shop)]), actor="test")
    await stage.agent(
        runner="resumable",
        config={"token": "t"},
        state_policy={"state_scopes": ["conversation", "actor", "runner"]},
        resource_policy={
            "allowed_tool_names": ["shop.*"],
            "tool_approval": {"shop.*": "required"},
            "allow_workspace_storage": True,
            "allow_plugin_storage": True,
            "allow_schedules": True,
        },
    )


async def leave(stage: Stage, words: Canaries, conversation_id: str) -> list[str]:
    """Leave all canaries in a conversation; return the ids of its runs."""
    place: dict[str, Any] = {"conversation_id": conversation_id}
    file = {
        "type": "file_base64",
        "file_name": f"{words.filename}.txt",
        "file_base64": _encoded(words.inputfile),
    }
    run_id = await stage.start(
        [],
        **place,
        actor={"actor_id": "ada", "actor_name": words.actorname, "metadata": {"about": words.actordata}},
        subject={"subject_type": "message", "subject_id": "m", "data": {"about": words.subject}},
        metadata={"note": f"{words.metadata} {words.text}"},
        input={"text": json.dumps(_steps(words, conversation_id)), "contents": [file]},
    )
    await _approve(stage, run_id, words.comment)
    ended = await stage.ended(run_id)
    assert ended.record.status == "completed", ended.last
    assert not [answer for answer in ended.told if answer and "error" in answer], ended.told
    held = await stage.start([["hold"]], **place)
    waits = await stage.start([["say", words.waiting]], **place)
    await stage.cancel(held, reason=words.cancelled)
    for one in (held, waits):
        await stage.ended(one)
    edited = Input(text=json.dumps([["say", words.edited]]))
    forked = await stage.host.reruns.fork(WORKSPACE, run_id, actor="test", at=1, edited=edited)
    await stage.ended(forked)

    def answer(tx: Tx) -> None:
        idempotency.begin(tx, WORKSPACE, "key", conversation_id, "digest")
        text = json.dumps({"run_id": run_id, "output": words.answer})
        idempotency.finish(tx, WORKSPACE, "key", conversation_id, status=200, answer=text)

    await stage.host.db.write(answer)
    return [run_id, held, waits, forked]


def _steps(words: Canaries, key: str) -> list[Any]:
    scopes = {
        "conversation": words.conversationstate,
        "actor": words.actorstate,
        "runner": words.runnerstate,
    }
    stored = {"plugin": words.pluginvalue, "workspace": words.workspacevalue}
    file = {"artifact_type": "file", "name": f"{words.artifactname}.txt"}
    sent = {"to": "ada", "text": words.toolargument}
    upload = {"artifact_type": "file", "part": 0, "last": True, "content_base64": _encoded(words.upload)}
    return [
        *(["call", "state.set", {"scope": one, "key": key, "value": word}] for one, word in scopes.items()),
        *(
            ["call", "storage.set", {"area": one, "key": key, "content_base64": _encoded(word)}]
            for one, word in stored.items()
        ),
        ["deltas", 3, f"{words.delta} "],
        ["result", "artifact.created", {**file, "content_base64": _encoded(words.artifact * 9_000)}],
        ["call", "artifact.upload", upload],
        ["call", "schedule.create", {"text": words.reminder, "delay": 80_000}],
        ["call", "tool.call", {"tool_name": "shop.send", "parameters": sent}],
        ["call", "history.page", {}],
        ["say", f"{words.said} {words.large * 4_000}"],
        ["tell"],
    ]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def _approve(stage: Stage, run_id: str, comment: str) -> None:
    while not (page := await stage.host.pauses.page(ADMIN, run_id=run_id)).items:
        await asyncio.sleep(0.01)
    pause = page.items[0]
    (call,) = pause.calls
    action = Action(call_id=call.call_id, type="approve", args_hash=call.args_hash, comment=comment)
    await stage.host.pauses.act(ADMIN, pause.id, ActRequest(revision=pause.revision, actions=[action]))
