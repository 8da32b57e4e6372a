"""Two links in memory, and the shortest way to say things with them."""

from __future__ import annotations

import json
from typing import Any

from hostler_protocol import Limits, Link, PluginIdentity, Side
from hostler_protocol.events import AgentRunContext, EventRef, Trigger
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import Called, Incoming, Replied, ResultArrived, Warned
from hostler_protocol.methods import (
    HostIdentity,
    InitializeParams,
    InitializeReply,
    NoParams,
    RunStartParams,
    VersionRange,
)


def line(message: dict[str, Any]) -> bytes:
    """Encode a message as a foreign program would."""
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def lines(data: bytes) -> list[dict[str, Any]]:
    """Read what a link gave to send."""
    return [json.loads(each) for each in data.splitlines()]


def result(run_id: str, sequence: int, **more: Any) -> bytes:
    """Encode a `run/result` as a foreign program would."""
    params = {"run_id": run_id, "type": "log", "sequence": sequence, "data": {"level": "info", "text": ""}}
    return line({"method": "run/result", "params": {**params, **more}})


def initialize(limits: Limits | None = None, versions: tuple[int, int] = (1, 1)) -> InitializeParams:
    return InitializeParams(
        protocol=VersionRange(min=versions[0], max=versions[1]),
        host=HostIdentity(name="hostler", version="0"),
        limits=limits or Limits(),
    )


INITIALIZED = InitializeReply(protocol=1, plugin=PluginIdentity(author="acme", name="echo"))


def start(run_id: str, credit: int = 64) -> RunStartParams:
    return RunStartParams(
        runner_id="plugin:acme/echo/default",
        runner_name="default",
        context=AgentRunContext(
            run_id=run_id, trigger=Trigger(type="api"), event=EventRef(event_id="e", event_type="message")
        ),
        credit=credit,
    )


class Pair:
    """A host's link and a plugin's, with the wire between them."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.host = Link(Side.HOST, limits)
        self.plugin = Link(Side.PLUGIN, limits)

    @classmethod
    def ready(cls, limits: Limits | None = None) -> Pair:
        pair = cls(limits)
        id_ = pair.host_asks("initialize", initialize(limits))
        assert isinstance(pair.to_host(pair.plugin.reply(id_, INITIALIZED))[0], Replied)
        return pair

    def to_host(self, data: bytes) -> list[Incoming]:
        return list(self.host.receive(data))

    def to_plugin(self, data: bytes) -> list[Incoming]:
        return list(self.plugin.receive(data))

    def host_asks(self, method: str, params: Any) -> MessageId:
        """Let the host make a request that the plugin accepts; gives its id."""
        id_, data = self.host.request(method, params)
        (event,) = self.to_plugin(data)
        assert isinstance(event, Called)
        assert event.id == id_
        return id_

    def plugin_asks(self, method: str, params: Any) -> MessageId:
        """Let the plugin make a request that the host accepts; gives its id."""
        id_, data = self.plugin.request(method, params)
        (event,) = self.to_host(data)
        assert isinstance(event, Called)
        assert event.id == id_
        return id_

    def start(self, run_id: str, credit: int = 64) -> None:
        """Start a run and let the plugin answer."""
        id_ = self.host_asks("run/start", start(run_id, credit))
        (event,) = self.to_host(self.plugin.reply(id_, NoParams()))
        assert isinstance(event, Replied)

    def refusal(self) -> dict[str, Any]:
        """Take the one refusal that the host's link wrote by itself."""
        (message,) = lines(self.host.data_to_send())
        error: dict[str, Any] = message["error"]
        return error


def running(*runs: str, credit: int = 64, limits: Limits | None = None) -> Pair:
    """Connect two links, and start runs."""
    pair = Pair.ready(limits)
    for run_id in runs:
        pair.start(run_id, credit)
    return pair


def arrived(events: list[Incoming]) -> list[tuple[str, int]]:
    """Select the results among events, as (run, sequence)."""
    return [(e.result.run_id, e.result.sequence) for e in events if isinstance(e, ResultArrived)]


def warnings(events: list[Incoming]) -> list[Warned]:
    """Select the warnings among events."""
    return [event for event in events if isinstance(event, Warned)]
