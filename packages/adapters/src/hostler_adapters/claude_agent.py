"""Agents of the Claude Agent SDK as runners.

options = ClaudeAgentOptions(system_prompt="You are brief.", tools=["Read"])
Support = runner(options, name="support")
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    SdkMcpTool,
    StreamEvent,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
)

from hostler_adapters.active_run import ActiveRun
from hostler_adapters.claude_transcript import (
    Message,
    Transcript,
    begins_turn,
    entries_of,
    id_of,
    message_of,
    user_content,
)
from hostler_adapters.host_tools import HostTool
from hostler_adapters.outputs import text_of_output
from hostler_adapters.runner_class import Settings, built_agent, check_agent, runner_class
from hostler_adapters.sessions import latest
from hostler_sdk import RunContext, Runner

SESSION_FORMAT = "claude-agent/1"
SERVER = "host"
"""Name of the server that offers the tools of the host; the model knows them as `mcp__host__NAME`."""
ALIAS = "opus"
"""The model that the program is told to use: it stands for the one that the door is asked for."""
SEEN_SECONDS = 60.0
"""How long a call of a tool waits for the message that announces it, which the program writes before."""
WHAT = "ClaudeAgentOptions"
REFUSED = {
    "hooks": "the program runs without them; ask people with can_use_tool, or in a tool",
    "session_store": "the host keeps the session",
    "resume": "the host keeps the session",
    "continue_conversation": "the host keeps the session",
    "session_id": "it follows from the run",
    "fallback_model": "fallbacks are in the agent's configuration",
}
"""Options that cannot be kept, and why."""
Build = Callable[[RunContext], ClaudeAgentOptions]


def runner(
    options: ClaudeAgentOptions | Build,
    *,
    name: str,
    description: str = "",
    history: int = 50,
    config: Sequence[Mapping[str, Any]] = (),
) -> type[Runner]:
    """Return a runner class for options of an agent, or for a function of the run's context that builds them.

    `model` of the options is the name that the model door is asked for; without one it is `default`. A tool
    that the program asks a permission for asks people, unless the options have a `can_use_tool` of their own.
    Raises TypeError for other `options`, and ValueError for those that cannot be kept.
    """
    settings = Settings(name=name, description=description, history=history, config=config)
    check_agent(options, ClaudeAgentOptions, WHAT)
    if isinstance(options, ClaudeAgentOptions):
        _check(options)

    async def serve(run: ActiveRun) -> None:
        built = await built_agent(options, ClaudeAgentOptions, WHAT, run.ctx)
        _check(built)
        with tempfile.TemporaryDirectory(prefix="claude-") as folder:
            await _ClaudeRun(run, built, Path(folder), history).serve()

    return runner_class(serve, settings, session_format=SESSION_FORMAT)


def _check(options: ClaudeAgentOptions) -> None:
    for name, why in REFUSED.items():
        if getattr(options, name, None):
            raise ValueError(f"the options have {name}, which is not possible here: {why}")
    if isinstance(options.mcp_servers, Mapping) and SERVER in options.mcp_servers:
        raise ValueError(f"the options have an MCP server {SERVER!r}, which is the host's; name it otherwise")


class _Kept:
    """What the SDK asks for a transcript: that of earlier runs. What it adds is kept by the adapter."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self._entries = entries

    async def load(self, key: Any) -> list[dict[str, Any]] | None:
        """Return the entries."""
        return self._entries or None

    async def append(self, key: Any, entries: list[Any]) -> None:
        """Do nothing: they have ids and times of this attempt."""


class _ClaudeRun:
    """One run of one agent."""

    def __init__(self, run: ActiveRun, options: ClaudeAgentOptions, folder: Path, history: int) -> None:
        self._run = run
        self._options = options
        self._folder = folder
        self._limit = history
        self._client: Any = None
        self._transcript = Transcript([])
        self._announced: dict[str, ToolUseBlock] = {}
        """Calls of tools that the program has announced, by id; those of the host until they are made."""
        self._news = asyncio.Condition()
        self._own: dict[str, str] = {}
        """Names of the framework's own tools that are at work, by the id of the call."""
        self._ended: list[ToolResultBlock] = []

    async def serve(self) -> None:
        """Answer, and go on while messages arrive that were not taken up."""
        stored, turns = await self._run.earlier()
        turns = [*turns, await self._run.input()]
        first = len(turns)
        while first and turns[first - 1].role == "user":
            first -= 1  # what was not answered is asked again: the program wants an answer after each message
        earlier: list[Message] = [*(stored or []), *map(message_of, turns[:first])]
        turns = turns[first:]
        self._transcript = Transcript(earlier)
        tools = [self._tool(tool) for tool in await self._run.tools()]
        async with ClaudeSDKClient(self._settings(earlier, tools)) as client:
            self._client = client
            while turns:
                self._transcript.ask(user_content(turns))
                await client.query(_prompt(user_content(turns)))
                answer = await self._answer(client)
                turns = await self._run.steers()
                if not turns:
                    kept = latest(self._transcript.messages, max(self._limit, 1), begins_turn)
                    await self._run.keep(kept)
                await self._run.answer(answer)

    # -- the program -------------------------------------------------------------------------------

    def _settings(self, earlier: list[Message], tools: list[SdkMcpTool[Any]]) -> ClaudeAgentOptions:
        given = self._options
        servers: dict[str, Any] = dict(given.mcp_servers) if isinstance(given.mcp_servers, Mapping) else {}
        if tools:
            servers[SERVER] = create_sdk_mcp_server(SERVER, tools=tools)
        session_id = id_of(self._run.ctx.event.event_id)
        folder = str(given.cwd or self._folder)
        entries = entries_of(earlier, session_id, self._run.began_at, folder)
        return replace(
            given,
            model=ALIAS,
            env={**self._environment(given), **given.env},
            cwd=folder,
            mcp_servers=servers,
            setting_sources=[],
            include_partial_messages=True,
            verbatim_prompts=True,
            can_use_tool=self._may,
            session_store=_Kept(entries),
            resume=session_id if entries else None,
            session_id=None if entries else session_id,
        )

    def _environment(self, given: ClaudeAgentOptions) -> dict[str, str]:
        """Return variables with which the program asks the door alone, and the same in every attempt."""
        model = given.model or "default"
        models = {f"ANTHROPIC_DEFAULT_{name}_MODEL": model for name in ("OPUS", "SONNET", "HAIKU", "FABLE")}
        return {
            **self._run.ctx.models.anthropic_variables,
            **models,
            "HOME": str(self._folder),
            "CLAUDE_CONFIG_DIR": str(self._folder / "config"),
            "CLAUDE_CODE_SIMPLE": "1",  # no date or folder in prompts; no hooks, no files of settings
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "2",  # the host tries again itself
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            # not every model takes one; the agent's author may want it
            **({} if given.effort else {"CLAUDE_CODE_EFFORT_LEVEL": "unset"}),
        }

    async def _answer(self, client: ClaudeSDKClient) -> str:
        """Read what the program writes until it has answered. Raises RuntimeError if it cannot."""
        async for message in client.receive_response():
            match message:
                case StreamEvent(event=event, parent_tool_use_id=None):
                    await self._report_ended()
                    delta = event.get("delta") or {}
                    if delta.get("type") == "text_delta":
                        await self._run.say(delta["text"])
                case AssistantMessage():
                    await self._announce(message)
                case UserMessage(content=list(blocks)):
                    for block in blocks:
                        if isinstance(block, ToolResultBlock):
                            self._took(block, within=message.parent_tool_use_id)
                case ResultMessage():
                    await self._report_ended()
                    return _text_of(message)
                case _:
                    pass
        raise RuntimeError("the program of the Claude Agent SDK ended without a result")

    async def _announce(self, message: AssistantMessage) -> None:
        """Note what the model said and wants to call, and wake the calls that wait for it."""
        if message.parent_tool_use_id is None and message.error is None:
            self._transcript.answer(message.message_id, [*_plain(message.content)])
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                if not block.name.startswith(f"mcp__{SERVER}__"):
                    self._own[block.id] = block.name
                    await self._run.tool_began(block.id, _shown(block.name), block.input)
                async with self._news:
                    self._announced[block.id] = block
                    self._news.notify_all()

    def _took(self, block: ToolResultBlock, within: str | None) -> None:
        content = block.content if block.content is not None else ""
        if within is None:
            result: dict[str, Any] = {
                "type": "tool_result",
                "tool_use_id": block.tool_use_id,
                "content": content,
            }
            self._transcript.result(result | ({"is_error": True} if block.is_error else {}))
        if block.tool_use_id in self._own:
            self._ended.append(block)

    async def _report_ended(self) -> None:
        """Report the ends of own tools, once the next model call is under way: so their order is certain."""
        ended, self._ended = self._ended, []
        for block in ended:
            name = self._own.pop(block.tool_use_id)
            error = str(block.content) if block.is_error else None
            await self._run.tool_ended(block.tool_use_id, _shown(name), block.content, error)

    # -- what the program asks ---------------------------------------------------------------------

    async def _may(self, name: str, given: dict[str, Any], context: Any) -> Any:
        """Decide whether a tool may be called: one of the host, whose calls the host checks; or by people."""
        await self._seen(lambda block: block.id == context.tool_use_id)
        if name.startswith(f"mcp__{SERVER}__"):
            return PermissionResultAllow()
        if self._options.can_use_tool is not None:
            verdict = await self._options.can_use_tool(name, given, context)
        else:
            asked = await self._run.approve(_shown(name), given, description=context.description or "")
            verdict = (
                PermissionResultAllow() if asked.approved else PermissionResultDeny(message=asked.reason)
            )
        await self._steer()
        return verdict

    def _tool(self, tool: HostTool) -> SdkMcpTool[Any]:
        async def call(arguments: dict[str, Any]) -> dict[str, Any]:
            full = f"mcp__{SERVER}__{tool.name}"
            block = await self._seen(lambda one: one.name == full, arguments)
            if block is not None:
                self._announced.pop(block.id, None)
            text = await tool.call_text(arguments, block.id if block else None)
            await self._steer()
            return {"content": [{"type": "text", "text": text}]}

        return SdkMcpTool(tool.name, tool.description or tool.name, tool.parameters, call)

    async def _seen(
        self, is_it: Callable[[ToolUseBlock], bool], arguments: Any = None
    ) -> ToolUseBlock | None:
        """Wait until all that the program wrote before a call is read, and return what announces the call.

        Of several, it is the first with these arguments.
        """

        def found() -> ToolUseBlock | None:
            blocks = [block for block in self._announced.values() if is_it(block)]
            return next((block for block in blocks if block.input == arguments), next(iter(blocks), None))

        try:
            async with asyncio.timeout(SEEN_SECONDS), self._news:
                await self._news.wait_for(lambda: found() is not None)
        except TimeoutError:
            return None
        return found()

    async def _steer(self) -> None:
        """Pass messages on that arrived: the program adds them to the results of the tools."""
        if turns := await self._run.steers():
            content = user_content(turns)
            self._transcript.steer(content)
            await self._client.query(_prompt(content))


async def _prompt(content: Any) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}


def _plain(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the blocks of an answer that are kept: its thoughts are not."""
    plain: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            plain.append({"type": "text", "text": block.text})
        elif isinstance(block, ToolUseBlock):
            plain.append({"type": "tool_use", "id": block.id, "name": block.name, "input": block.input})
    return plain


def _shown(name: str) -> str:
    """Return a tool's name without that of its server."""
    return name.rpartition("__")[2] or name


def _text_of(result: ResultMessage) -> str:
    if result.is_error or result.subtype != "success":
        reason = result.result or "; ".join(result.errors or ()) or result.subtype
        raise RuntimeError(f"the agent failed: {reason}")
    if result.structured_output is not None:
        return text_of_output(result.structured_output)
    return result.result or ""
