"""A cron of LangGraph as a schedule of the host, and back.

A cron has no state of its own: all that its client sent is in the entry of its schedule, whose name has its
id. What becomes of its runs is in the data of their event, as that of any run of this interface.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from hostler.domain.firing_times import cron_of, moment_of, zone_of
from hostler.domain.schedules import MAX_DATA_BYTES, MESSAGE, Schedule, schedule_mistakes
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.messages import wrong
from hostler.http.langgraph.run_request import (
    DATA_KEY,
    OWN_CONFIG,
    PARAMS_KEY,
    OwnData,
    modes_of,
    refuse_absent,
    said_of,
)
from hostler.http.langgraph.threads import moment
from hostler.storage.stores.schedules import StoredSchedule
from hostler_protocol._base import Lenient, Strict
from hostler_protocol.content import TextElement, text_of
from hostler_protocol.errors import InvalidArgumentError

PREFIX = "cron-"
"""Begins the names of schedules that are crons; the id of the cron follows."""
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACES = {
    "cron": "schedule",
    "end": "end_time",
    "text": "input",
    "data": "input, config, context and metadata",
    "agent": "assistant_id",
    "conversation_id": "thread_id",
}
"""How clients call the fields of a schedule."""


class CronFields(Strict):
    """What a client says of a cron. Strict, since what is not known here would be done without.

    `schedule`: five fields, or six with seconds after them. `end_time`: null for none; without an offset it
    is UTC. Runs of a host are always resumable and stored as they go, and agents have no subgraphs: so the
    last four fields change nothing.
    """

    schedule: str | None = None
    timezone: str | None = None
    end_time: str | msgspec.UnsetType | None = msgspec.UNSET
    enabled: bool | None = None
    input: Any = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    stream_mode: str | list[str] | None = None
    on_run_completed: Literal["delete", "keep"] | None = None
    multitask_strategy: Literal["reject", "enqueue", "interrupt", "rollback"] | None = None
    interrupt_before: Any = None
    interrupt_after: Any = None
    webhook: Any = None
    durability: Literal["sync", "async", "exit"] | None = None
    checkpoint_during: bool | None = None
    stream_subgraphs: bool | None = None
    stream_resumable: bool | None = None


class CronCreate(CronFields, kw_only=True):
    """What a client says of a new cron."""

    assistant_id: str


class CronParts(Lenient):
    """What a client sent besides messages, as it sent it: it is shown again, and changed part by part."""

    input: dict[str, Any] = {}
    config: dict[str, Any] = {}
    context: dict[str, Any] = {}


class OwnCron(OwnData):
    """What is kept of a cron in the data of its events."""

    cron: CronParts = CronParts()


def name_of(cron_id: str) -> str | None:
    """Return the name of the schedule that a cron is; None for a text that is the id of none."""
    return PREFIX + cron_id if _ID.fullmatch(cron_id) else None


def cron_spec(stored: StoredSchedule) -> Schedule | None:
    """Return the entry of a schedule that is a cron; None for any other, and for one that cannot be read.

    One that an operator has changed so that it is none any more, by an interval for example, is any other.
    """
    if name_of(stored.name.removeprefix(PREFIX)) != stored.name:
        return None
    try:
        spec = stored.spec
    except InvalidArgumentError:
        return None
    return spec if spec.cron is not None and spec.agent is not None else None


# -- as a schedule ------------------------------------------------------------------------------------------


def blank(name: str, assistant_id: str, thread_id: str | None) -> Schedule:
    """Return the entry of a new cron, of which nothing is said yet. Its text will be kept in its thread."""
    return Schedule(
        name=name,
        agent=assistant_id,
        event_type=MESSAGE,
        conversation_id=thread_id,
        new_conversation=thread_id is None,
    )


def changed(spec: Schedule, body: CronFields) -> Schedule:
    """Return the entry with what a client says. InvalidArgumentError for what cannot be done here."""
    _check(body)
    own = _own(spec)
    parts, text = own.cron, spec.text
    if body.input is not None:
        text = _text_of(body.input)
        rest = body.input if isinstance(body.input, dict) else {}
        rest = {name: value for name, value in rest.items() if name != "messages"}
        parts = msgspec.structs.replace(parts, input=rest)
    if body.config is not None:
        parts = msgspec.structs.replace(parts, config=_config_of(body.config))
    if body.context is not None:
        parts = msgspec.structs.replace(parts, context=body.context)
    own = msgspec.structs.replace(
        own,
        cron=parts,
        metadata={**own.metadata, **(body.metadata or {})},
        modes=list(modes_of(body.stream_mode, own.modes)),
    )
    others = {name: value for name, value in spec.data.items() if name not in (DATA_KEY, PARAMS_KEY)}
    made = msgspec.structs.replace(
        spec,
        cron=spec.cron if body.schedule is None else _fields_of(body.schedule),
        timezone=spec.timezone if body.timezone is None else body.timezone,
        end=spec.end if body.end_time is msgspec.UNSET else _end_of(body.end_time),
        text=text,
        data={**others, **_data_of(own)},
    )
    _check_spec(made)
    return made


def _check(body: CronFields) -> None:
    refuse_absent(body)
    if body.on_run_completed == "delete":
        raise refused(
            "on_run_completed",
            "threads are kept as long as the host's retention says, and DELETE /threads/{thread} deletes one",
            "keep, or to be left out",
        )
    if body.multitask_strategy not in (None, "enqueue"):
        raise refused(
            "multitask_strategy",
            "the agent's `concurrency` says what becomes of a run whose thread is busy",
            "enqueue, or to be left out",
        )


def _check_spec(spec: Schedule) -> None:
    size = len(msgspec.json.encode(spec.data))
    if size > MAX_DATA_BYTES:
        raise refused(
            _PLACES["data"], f"they take {size:,} bytes together", f"to take at most {MAX_DATA_BYTES:,} bytes"
        )
    for mistake in schedule_mistakes(spec):
        place = _PLACES.get(mistake.place, mistake.place)
        raise InvalidArgumentError(
            f"{place}: {mistake.text}", errors=[{"field": place, "expected": mistake.text}]
        )


def _fields_of(text: str) -> str:
    """Return an expression as the host reads it, which has the seconds first. InvalidArgumentError."""
    fields = text.split()
    if not text.strip().startswith("@") and len(fields) not in (5, 6):
        raise refused(
            "schedule",
            f"{text!r:.60} has {len(fields)} fields",
            "minute, hour, day of month, month and day of week, and seconds after them if wanted",
        )
    found = " ".join([fields[-1], *fields[:-1]]) if len(fields) == 6 else text
    try:
        cron_of(found)
    except InvalidArgumentError as error:
        sentence = error.message.replace(f"{found!r:.60}", f"{text!r:.60}")
        raise InvalidArgumentError(
            f"schedule: {sentence}", errors=[{"field": "schedule", "expected": sentence}]
        ) from None
    return found


def _end_of(text: str | None) -> str | None:
    try:
        return None if text is None else moment(moment_of(text, zone_of("UTC")))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"end_time: {error.message}", errors=[{"field": "end_time", "expected": error.message}]
        ) from None


def _text_of(given: Any) -> str:
    """Return what the user says: text alone, since a schedule sends nothing else."""
    if isinstance(given, dict) and given.get("tools"):
        raise refused("input.tools", "no client is there to carry them out when a cron fires")
    said = said_of(given)
    for place, one in enumerate(said):
        where = f"input.messages[{place}]"
        if one.kind != "human":
            raise wrong(f"{where}.type", "human: a cron says what its user would say, and nothing else")
        if one.id is not None:
            raise refused(f"{where}.id", "each firing says a message of its own")
        if not all(isinstance(element, TextElement) for element in one.contents):
            raise wrong(f"{where}.content", "text: a cron sends no files")
    return "\n".join(text_of(one.contents) for one in said)


def _config_of(given: dict[str, Any]) -> dict[str, Any]:
    for name, value in given.items():
        if name != "configurable" and value:
            raise refused(f"config.{name[:40]}", "the agent's own policy bounds and describes its runs")
    configurable = given.get("configurable") or {}
    if not isinstance(configurable, dict):
        raise wrong("config.configurable", "an object")
    for name in configurable:
        if name in OWN_CONFIG:
            raise refused(f"config.configurable.{name}", "it is the server's")
    return {"configurable": configurable} if configurable else {}


# -- as a cron ----------------------------------------------------------------------------------------------


def record_of(stored: StoredSchedule, spec: Schedule) -> dict[str, Any]:
    """Return a schedule that is a cron as its clients read it. `spec`: that of `cron_spec`."""
    own = _own(spec)
    fields = (spec.cron or "").split()
    payload: dict[str, Any] = {
        "assistant_id": spec.agent,
        "input": {**own.cron.input, "messages": [{"role": "user", "content": spec.text or ""}]},
        "config": own.cron.config,
        "context": own.cron.context,
        "metadata": own.metadata,
        "stream_mode": own.modes,
    }
    zone = zone_of(spec.timezone)
    return {
        "cron_id": stored.name.removeprefix(PREFIX),
        "assistant_id": spec.agent,
        "thread_id": spec.conversation_id,
        "on_run_completed": "keep" if spec.conversation_id is None else None,
        "end_time": None if spec.end is None else moment(moment_of(spec.end, zone)),
        "schedule": " ".join([*fields[1:], fields[0]]) if len(fields) == 6 else spec.cron,
        "timezone": spec.timezone,
        "created_at": moment(stored.created_at),
        "updated_at": moment(stored.changed_at),
        "payload": payload,
        "user_id": stored.made_by,
        "next_run_date": None if stored.next_planned is None else moment(stored.next_planned),
        "metadata": own.metadata,
        "enabled": stored.paused_at is None,
    }


def metadata_of(spec: Schedule) -> dict[str, Any]:
    """Return the metadata of a cron."""
    return _own(spec).metadata


def _own(spec: Schedule) -> OwnCron:
    try:
        return msgspec.convert(spec.data.get(DATA_KEY, {}), OwnCron)
    except msgspec.ValidationError:  # an operator has changed it
        return OwnCron()


def _data_of(own: OwnCron) -> dict[str, Any]:
    """Return the data of the events of a cron: `params` are what its agent gets as parameters."""
    parts = own.cron
    kept: dict[str, Any] = {"modes": own.modes}
    if own.metadata:
        kept["metadata"] = own.metadata
    if sent := {name: part for name in CronParts.__struct_fields__ if (part := getattr(parts, name))}:
        kept["cron"] = sent
    params = {**parts.input, **parts.config.get("configurable", {}), **parts.context}
    return {DATA_KEY: kept, **({PARAMS_KEY: params} if params else {})}
