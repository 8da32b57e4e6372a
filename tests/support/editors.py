"""Editors: the official client of the Agent Client Protocol over a real `hostler acp`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import acp
from acp.client.connection import ClientSideConnection
from acp.schema import (
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    FileSystemCapabilities,
    InitializeResponse,
    PermissionOption,
    TextContentBlock,
    ToolCallUpdate,
)

from support import ready_processes
from support.command_line import environment
from support.ready_processes import PipedProcess

BOUND_SECONDS = 120.0
LINE_BYTES = 64 * 1024 * 1024
ALL = ClientCapabilities(
    fs=FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
    elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()),
)


def steps(*listed: Any) -> str:
    """The message that makes the stepper take these steps."""
    return json.dumps(list(listed), ensure_ascii=False)


def result(kind: str, **data: Any) -> list[Any]:
    """A step that sends a result."""
    return ["result", kind, data]


def said(text: str) -> list[Any]:
    """A step that says a message."""
    return ["say", text]


def delta(text: str, message_id: str | None = None) -> list[Any]:
    """A step that streams a piece."""
    chunk = {"role": "assistant", "content": text}
    return result("message.delta", chunk=chunk | ({"message_id": message_id} if message_id else {}))


@dataclass
class Person:
    """A person at an editor, and what they see. `files` are those of the editor."""

    updates: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Permission requests and forms."""
    choices: list[str | None] = field(default_factory=list)
    """Option ids to choose, in order; None: none of them. When it is empty, nothing is answered."""
    forms: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    commands: list[dict[str, Any]] = field(default_factory=list)
    output: str = "ok\n"
    hangs: bool = False
    """Whether commands never end by themselves."""
    killed: list[str] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Requests whose answers were not needed any more."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def _change(self) -> None:
        self.changed.set()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        shown = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.append((session_id, shown))
        self._change()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> Any:
        asked = {
            "session": session_id,
            "call": tool_call.model_dump(mode="json", by_alias=True, exclude_none=True),
            "options": {one.option_id: one.kind for one in options},
        }
        self.asked.append(asked)
        self._change()
        while not self.choices:
            await self._until_changed()
        chosen = self.choices.pop(0)
        outcome = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
        return acp.RequestPermissionResponse.model_validate({"outcome": outcome})

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.asked.append(
            {"message": message, "mode": mode.model_dump(mode="json", by_alias=True, exclude_none=True)}
        )
        self._change()
        while not self.forms:
            await self._until_changed()
        answer = self.forms.pop(0)
        if answer.get("action") == "decline":
            return acp.DeclineElicitationResponse(action="decline")
        return acp.AcceptElicitationResponse(action="accept", content=answer)

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> Any:
        if path not in self.files:
            raise acp.RequestError(-32002, f"there is no {path}")
        lines = self.files[path].splitlines(keepends=True)
        first = (line or 1) - 1
        return acp.ReadTextFileResponse(
            content="".join(lines[first : None if limit is None else first + limit])
        )

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        self.files[path] = content
        return acp.WriteTextFileResponse()

    async def create_terminal(self, session_id: str, command: str, **more: Any) -> Any:
        self.commands.append({"command": command, **more})
        self._change()
        return acp.CreateTerminalResponse(terminal_id=f"t{len(self.commands)}")

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        while self.hangs and terminal_id not in self.killed:
            await self._until_changed()
        return acp.WaitForTerminalExitResponse(exit_code=0)

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        return acp.TerminalOutputResponse(output=self.output, truncated=False)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self.killed.append(terminal_id)
        self._change()
        return acp.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self.released.append(terminal_id)
        self._change()
        return acp.ReleaseTerminalResponse()

    def on_connect(self, conn: Any) -> None: ...

    def choose(self, *choices: str | None) -> None:
        """Answer what is asked, or will be."""
        self.choices += choices
        self._change()

    def fill_in(self, *answers: dict[str, Any]) -> None:
        """Answer forms."""
        self.forms += answers
        self._change()

    async def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until something of what they see holds."""
        async with asyncio.timeout(BOUND_SECONDS):
            while not (found := holds()):
                await self._until_changed()
        return found

    async def _until_changed(self) -> None:
        self.changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):  # others wait for the same event, and may clear it
                await self.changed.wait()

    def of(self, kind: str, session_id: str | None = None) -> list[dict[str, Any]]:
        """The updates of a kind."""
        return [
            update
            for session, update in self.updates
            if update["sessionUpdate"] == kind and session_id in (None, session)
        ]

    def text(self, kind: str = "agent_message_chunk", session_id: str | None = None) -> str:
        """The text that was shown."""
        return "".join(one["content"].get("text", "") for one in self.of(kind, session_id))

    def tool_calls(self) -> dict[str, dict[str, Any]]:
        """The calls as they are now: each with all that was said of it."""
        found: dict[str, dict[str, Any]] = {}
        for _, update in self.updates:
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                found.setdefault(update["toolCallId"], {}).update(update)
        return found

    def transcript(self) -> list[tuple[str, Any]]:
        """Who said what, and what came of tool calls, in order, whatever pieces it came in."""
        found: list[tuple[str, Any]] = []
        calls = self.tool_calls()
        for _, update in self.updates:
            match update["sessionUpdate"]:
                case "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" as kind:
                    content = update["content"]
                    text = content.get("text")
                    if text is not None and found and found[-1][0] == kind and isinstance(found[-1][1], str):
                        found[-1] = (kind, found[-1][1] + text)
                    else:
                        found.append((kind, text if text is not None else content))
                case "tool_call":
                    call = calls[update["toolCallId"]]
                    kept = {name: call.get(name) for name in ("title", "status", "rawInput", "rawOutput")}
                    found.append(("tool_call", kept))
        return found


@dataclass
class Editing:
    """An editor that has started the command."""

    process: PipedProcess | asyncio.subprocess.Process
    connection: ClientSideConnection
    person: Person
    about: InitializeResponse
    log: Path

    async def new(self, cwd: str | Path, **more: Any) -> str:
        """Open a session."""
        return (await self.connection.new_session(cwd=str(cwd), **{"mcp_servers": [], **more})).session_id

    async def say(self, session_id: str, *blocks: Any) -> acp.PromptResponse:
        """Send a prompt, and wait for its answer."""
        content = [TextContentBlock(type="text", text=one) if isinstance(one, str) else one for one in blocks]
        async with asyncio.timeout(BOUND_SECONDS):
            return await self.connection.prompt(session_id=session_id, prompt=content)

    def saying(self, session_id: str, *blocks: Any) -> asyncio.Task[acp.PromptResponse]:
        """Send a prompt, and go on meanwhile."""
        return asyncio.ensure_future(self.say(session_id, *blocks))

    async def kill(self) -> None:
        """End the command by force."""
        self.process.kill()
        await self.process.wait()

    async def leave(self) -> int:
        """Close the editor's side; the exit status of the command."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(BOUND_SECONDS):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def editing(
    *arguments: str,
    folder: Path,
    person: Person | None = None,
    capabilities: ClientCapabilities = ALL,
    constants: Mapping[str, float] | None = None,
    **variables: str,
) -> AsyncIterator[Editing]:
    """An editor over `hostler acp ARGUMENTS`, with nothing left of it after the block.

    `constants`: other values of constants of the command, by "module.NAME", which may only shorten waits.
    """
    log = folder / "acp.log"
    with log.open("ab") as stderr:
        process = await ready_processes.start_piped(
            ["acp", *arguments],
            environment(None, **variables),
            stderr,
            folder,
            constants,
            line_bytes=LINE_BYTES,
        )
    person = person or Person()
    assert process.stdin is not None
    assert process.stdout is not None
    connection = acp.connect_to_agent(
        cast("acp.Client", person), process.stdin, process.stdout, use_unstable_protocol=True
    )
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            about = await connection.initialize(
                protocol_version=1,
                client_capabilities=capabilities,
                client_info=acp.schema.Implementation(name="test", version="1"),
            )
        yield Editing(process, connection, person, about, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await connection.close()
