"""The editor's files and terminal as client-side tools of runs.

A run calls them like any tool; the host pauses the call until its result comes from here. Reading in the
project folder is done at once; everything else is put to the person first, since it is asked for by an agent
elsewhere, whose instructions may come from what it has read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import acp
from acp.schema import (
    CreateTerminalRequest,
    CreateTerminalResponse,
    FileEditToolCallContent,
    KillTerminalRequest,
    KillTerminalResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    TerminalOutputRequest,
    TerminalOutputResponse,
    TerminalToolCallContent,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)

from hostler.cli.acp.decisions import Action
from hostler.cli.acp.editor import Editor, EditorError
from hostler.cli.acp.limits import (
    COMMAND_SECONDS,
    KIB,
    MAX_COMMAND_SECONDS,
    MAX_OUTPUT_BYTES,
    MAX_READ_BYTES,
)
from hostler.cli.acp.permissions import ALLOW, ALLOW_AGAIN, REJECT, choose, described, option
from hostler.cli.acp.updates import tool_progress

READ, WRITE, RUN = "editor_read_file", "editor_write_file", "editor_run_command"
METHODS = acp.CLIENT_METHODS
Arguments = Mapping[str, Any]


class MisuseError(Exception):
    """The agent's call cannot be carried out; the text is its result."""


class EditorTools:
    """The tools that an editor has for the runs of one session, in a folder of its machine."""

    def __init__(self, editor: Editor, session_id: str, folder: str) -> None:
        self._editor = editor
        self._session_id = session_id
        self._folder = folder
        self._allowed: set[tuple[str, ...]] = set()
        """What the person has allowed for the rest of the session."""
        self._tools: dict[str, Callable[[str, Arguments], Awaitable[Any]]] = {}
        if editor.reads_files:
            self._tools[READ] = self._read
        if editor.writes_files:
            self._tools[WRITE] = self._write
        if editor.has_terminal:
            self._tools[RUN] = self._run

    def offered(self) -> list[dict[str, Any]]:
        """Return the tools as `input.tools` of an event has them."""
        where = f"Paths are absolute, or relative to the project folder {self._folder}."
        return [_spec(name, where) for name in self._tools]

    async def carry_out(self, call_id: str, name: str, arguments: Arguments) -> Action | None:
        """Carry out a call; return its outcome as an action, None if the editor has no such tool."""
        tool = self._tools.get(name)
        if tool is None:
            return None
        try:
            return {"type": "result", "result": await tool(call_id, arguments)}
        except (MisuseError, EditorError) as error:
            return {"type": "error", "error": str(error)}

    async def _read(self, call_id: str, arguments: Arguments) -> Any:
        path = self._path(arguments)
        if not self._is_inside(path):
            shown = described(call_id, "read", {"path": path}, text="It is not in the project folder.")
            await self._permit((READ, path), shown, "Allow reading this file for the rest of the session")
        request = ReadTextFileRequest(
            session_id=self._session_id,
            path=path,
            line=_number(arguments, "line", 1),
            limit=_number(arguments, "limit", 1),
        )
        answer = await self._editor.ask(METHODS["fs_read_text_file"], request, ReadTextFileResponse)
        size = len(answer.content.encode(errors="replace"))
        if size > MAX_READ_BYTES:
            raise MisuseError(
                f"{path} has {size:,} bytes from there; at most {MAX_READ_BYTES // KIB} KiB at a time: "
                "give line and limit"
            )
        return {"path": path, "content": answer.content}

    async def _write(self, call_id: str, arguments: Arguments) -> Any:
        path, content = self._path(arguments), _text(arguments, "content", empty=True)
        old = await self._old_text(path) if self._is_inside(path) else None
        diff = FileEditToolCallContent(type="diff", path=path, old_text=old, new_text=content)
        await self._show(call_id, [diff])
        shown = described(call_id, "write", {"path": path, "bytes": len(content.encode(errors="replace"))})
        shown.content = [diff]
        if self._is_inside(path):
            await self._permit((WRITE,), shown, "Allow all writes in the project folder for this session")
        else:
            await self._permit((WRITE, path), shown, "Allow writing this file for the rest of the session")
        request = WriteTextFileRequest(session_id=self._session_id, path=path, content=content)
        await self._editor.ask(METHODS["fs_write_text_file"], request, WriteTextFileResponse)
        return {"path": path, "written": True}

    async def _old_text(self, path: str) -> str | None:
        """Return a file's text before it is written, for the person; None if there is none."""
        if not self._editor.reads_files:
            return None
        request = ReadTextFileRequest(session_id=self._session_id, path=path)
        with contextlib.suppress(EditorError):
            return (
                await self._editor.ask(METHODS["fs_read_text_file"], request, ReadTextFileResponse)
            ).content
        return None

    async def _run(self, call_id: str, arguments: Arguments) -> Any:
        command, words = _text(arguments, "command"), arguments.get("args") or []
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise MisuseError("args: expected a list of strings")
        seconds = arguments.get("timeout", COMMAND_SECONDS)
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, int | float)
            or not 0 < seconds <= MAX_COMMAND_SECONDS
        ):
            raise MisuseError(f"timeout: expected over 0 to {MAX_COMMAND_SECONDS:g} seconds")
        cwd = self._absolute(arguments["cwd"]) if isinstance(arguments.get("cwd"), str) else self._folder
        shown = described(call_id, "execute", dict(arguments), title=" ".join([command, *words])[:200])
        await self._permit(
            (RUN, cwd, command, *words), shown, "Allow this command for the rest of the session"
        )
        request = CreateTerminalRequest(
            session_id=self._session_id,
            command=command,
            args=words,
            cwd=cwd,
            output_byte_limit=MAX_OUTPUT_BYTES,
        )
        made = await self._editor.ask(METHODS["terminal_create"], request, CreateTerminalResponse)
        try:
            await self._show(
                call_id, [TerminalToolCallContent(type="terminal", terminal_id=made.terminal_id)]
            )
            return await self._outcome(made.terminal_id, float(seconds))
        finally:
            await asyncio.shield(self._release(made.terminal_id))

    async def _outcome(self, terminal: str, seconds: float) -> dict[str, Any]:
        """Return the outcome of a command; one that is out of time is killed."""
        names: dict[str, Any] = {"session_id": self._session_id, "terminal_id": terminal}
        ended: WaitForTerminalExitResponse | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                ended = await self._editor.ask(
                    METHODS["terminal_wait_for_exit"],
                    WaitForTerminalExitRequest(**names),
                    WaitForTerminalExitResponse,
                )
        if ended is None:
            await self._editor.ask(
                METHODS["terminal_kill"], KillTerminalRequest(**names), KillTerminalResponse
            )
        said = await self._editor.ask(
            METHODS["terminal_output"], TerminalOutputRequest(**names), TerminalOutputResponse
        )
        found: dict[str, Any] = {"output": said.output, "truncated": said.truncated}
        if ended is None:
            return found | {"timed_out": True}
        return found | {"exit_code": ended.exit_code, "signal": ended.signal}

    async def _release(self, terminal: str) -> None:
        """Give the terminal back; a command that still runs in it is killed."""
        request = ReleaseTerminalRequest(session_id=self._session_id, terminal_id=terminal)
        with contextlib.suppress(EditorError, ConnectionError):
            await self._editor.ask(METHODS["terminal_release"], request, ReleaseTerminalResponse)

    async def _permit(self, what: tuple[str, ...], shown: Any, always: str) -> None:
        """Have the person allow a call, unless they have for the session. MisuseError if they do not."""
        if what in self._allowed:
            return
        options = [
            option(ALLOW, "Allow", "allow_once"),
            option(ALLOW_AGAIN, always, "allow_always"),
            option(REJECT, "Reject", "reject_once"),
        ]
        chosen = await choose(self._editor, self._session_id, shown, options)
        if chosen not in (ALLOW, ALLOW_AGAIN):
            raise MisuseError("the person at the editor refused this call")
        if chosen == ALLOW_AGAIN:
            self._allowed.add(what)

    async def _show(self, call_id: str, content: list[Any]) -> None:
        await self._editor.update(
            self._session_id, tool_progress(call_id, status="in_progress", content=content)
        )

    def _path(self, arguments: Arguments) -> str:
        return self._absolute(_text(arguments, "path"))

    def _absolute(self, path: str) -> str:
        if "\x00" in path:
            raise MisuseError("a path holds a NUL character")
        return os.path.normpath(Path(self._folder, path))

    def _is_inside(self, path: str) -> bool:
        """Return whether a path is in the project folder, wherever its links lead."""
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self._folder))


def _text(arguments: Arguments, name: str, *, empty: bool = False) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not (value or empty):
        raise MisuseError(f"{name}: expected a text")
    return value


def _number(arguments: Arguments, name: str, least: int) -> int | None:
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise MisuseError(f"{name}: expected a whole number from {least}")
    return value


def _spec(name: str, where: str) -> dict[str, Any]:
    path = {"type": "string", "description": where}
    if name == READ:
        return {
            "name": READ,
            "description": "Read a text file of the project in the person's editor, with unsaved changes.",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": path,
                    "line": {"type": "integer", "minimum": 1, "description": "The first line, from 1."},
                    "limit": {"type": "integer", "minimum": 1, "description": "The most lines."},
                },
                "required": ["path"],
            },
        }
    if name == WRITE:
        return {
            "name": WRITE,
            "description": "Write a whole text file of the project in the person's editor. They are asked.",
            "parameters": {
                "type": "object",
                "properties": {"path": path, "content": {"type": "string", "description": "The whole text."}},
                "required": ["path", "content"],
            },
        }
    return {
        "name": RUN,
        "description": "Execute a program in a terminal of the person's editor. They are asked.",
        "parameters": {
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "description": "The program alone, no shell syntax.",
                },
                "args": {"type": "array", "items": {"type": "string"}},
                "cwd": {"type": "string", "description": where},
                "timeout": {
                    "type": "number",
                    "description": f"Seconds; default {COMMAND_SECONDS:g}, at most {MAX_COMMAND_SECONDS:g}.",
                },
            },
            "required": ["command"],
        },
    }
