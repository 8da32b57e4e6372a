"""Lets one thing go wrong at one host call of a run, and notes what hosts and plugins said to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hostler.simulation.faults.fault import LATE_SECONDS, Calls, Fault, FaultKind, ToolRun, name_of
from hostler.simulation.plugins import PluginLife, Tap

RUN_START, RUN_RESULT, RUN_END, TOOL_CALL = "run/start", "run/result", "run/end", "tool/call"
MAX_SAID = 100
"""Characters of a message or of arguments in the story."""


class FaultTap(Tap):
    """See the module. `kill_host` ends the host's process and starts another one."""

    def __init__(self, fault: Fault | None, kill_host: Callable[[], None]) -> None:
        self.calls = Calls([], [], [])
        self.tools: list[ToolRun] = []
        self.results: dict[str, Any] = {}
        """Call id of a tool -> its result."""
        self.story: list[str] = []
        self.happened = False
        self._fault = fault
        self._kill_host = kill_host
        self._names: dict[tuple[PluginLife, Any], str] = {}
        self._running: dict[tuple[PluginLife, Any], ToolRun] = {}
        self._effects: dict[str, str] = {}
        """Tool -> its effect class, as its plugin says."""
        self._unread: dict[PluginLife, bytes] = {}
        self._last: tuple[PluginLife, Any] | None = None
        """The answer after which the plugin is killed."""
        self._dies: PluginLife | None = None
        """Killed when it says something."""

    def host_sends(self, life: PluginLife, messages: Sequence[bytes]) -> Sequence[bytes]:
        """Count the answers to host calls."""
        for message in messages:
            said = msgspec.json.decode(message)
            if said.get("method") == RUN_START:
                self._note(life, "the host starts an attempt")
            name = self._names.get((life, said.get("id")))
            if "method" in said or name is None:
                continue
            self.calls.answered.append(name)
            number = len(self.calls.answered)
            if self._is_now("host-at-answer", number):
                self._crash_host(life)
                return []
            if self._is_now("plugin-before-answer", number):
                self._crash(life)
                return []
            if self._is_now("plugin-after-answer", number):
                self._last = (life, said["id"])
            if self._is_now("late-answer", number):
                self._note(life, f"✗ the answer to {name} is held back for {LATE_SECONDS:g} s")
                self._send_late(life, message)
                messages = [one for one in messages if one is not message]
            else:
                self._note(life, f"the host answers {name}{' with an error' if 'error' in said else ''}")
        return messages

    def _send_late(self, life: PluginLife, message: bytes) -> None:
        """Send this message later; others overtake it, as answers of other calls may."""
        loop = life.process.loop

        def send() -> None:
            if life.process.alive:
                self._note(life, "the late answer is sent")
                life.to_plugin.write(message, life.chance)

        loop.call_later(LATE_SECONDS, send, context=loop.outside.context())

    def plugin_reads(self, life: PluginLife, data: bytes) -> None:
        """Note tools, and the answer after which the plugin is killed."""
        *lines, rest = (self._unread.get(life, b"") + data).split(b"\n")
        self._unread[life] = rest
        for line in lines:
            said = msgspec.json.decode(line)
            if self._last == (life, said.get("id")) and "method" not in said:
                self._dies, self._last = life, None
            if said.get("method") == TOOL_CALL:
                asked, context = said["params"], said["params"]["context"]
                arguments = msgspec.json.encode(asked.get("parameters", {}), order="sorted").decode()
                name = asked["tool_name"]
                effect = self._effects.get(name, "default")
                tool = ToolRun(name, arguments, context["effect_key"], context["call_id"], effect)
                self.tools.append(tool)
                self._running[life, said["id"]] = tool
                self._note(life, f"the plugin runs {tool.tool} {_cut(tool.arguments)}")

    def plugin_sends(self, life: PluginLife, data: bytes) -> bytes:
        """Count host calls and answers of tools."""
        if self._dies is life:
            self._crash(life)
            return b""
        for line in data.splitlines():
            said = msgspec.json.decode(line)
            method, identity, params = said.get("method"), said.get("id"), said.get("params") or {}
            if method is None and isinstance(tools := said.get("result", {}).get("tools"), list):
                self._effects.update((tool["name"], tool["effect"]) for tool in tools)
            elif method is None and (tool := self._running.pop((life, identity), None)) is not None:
                self.results[tool.call_id] = said.get("result", {}).get("result")
                self.calls.tools.append(tool.tool)
                if self._is_now("plugin-in-tool", len(self.calls.tools)):
                    self._crash(life)
                    return b""
            elif method == RUN_RESULT:
                self._note_result(life, params)
            elif method == RUN_END:
                if self._is_now("plugin-at-end", 1):
                    self._crash(life)
                    return b""
                self._note(life, "the runner is at its end")
            elif method is not None and method.startswith("host/") and identity is not None:
                name = name_of(method, params)
                self._names[life, identity] = name
                self.calls.asked.append(name)
                self._note(life, f"the runner calls {name}")
                if self._is_now("host-at-call", len(self.calls.asked)):
                    self._crash_host(life)
                    return b""
        return data

    def _is_now(self, kind: FaultKind, number: int) -> bool:
        fault = self._fault
        if self.happened or fault is None or (fault.kind, fault.number) != (kind, number):
            return False
        self.happened = True
        return True

    def _crash(self, life: PluginLife) -> None:
        self._note(life, "✗ the plugin is killed")
        life.process.kill()

    def _crash_host(self, life: PluginLife) -> None:
        self._note(life, "✗ the host is killed")
        self._kill_host()

    def _note_result(self, life: PluginLife, params: dict[str, Any]) -> None:
        if params.get("type") == "message.completed":
            self._note(life, f"the runner says {_cut(text_of(params['data']['message']))}")
        elif str(params.get("type")).startswith("run."):
            self._note(life, f"the runner reports {params['type']}")

    def _note(self, life: PluginLife, text: str) -> None:
        self.story.append(f"{life.process.loop.time():8.3f} s  {text}")


def text_of(message: dict[str, Any]) -> str:
    """Return the content of a message as text."""
    content = message.get("content")
    return content if isinstance(content, str) else msgspec.json.encode(content, order="sorted").decode()


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_SAID else f"{text[: MAX_SAID - 1]}…"
