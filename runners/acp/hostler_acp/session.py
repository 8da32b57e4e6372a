"""One session of an agent: opened or loaded, prompted, cancelled, and closed with its process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar, cast

import acp
from acp.schema import (
    AgentCapabilities,
    ClientCapabilities,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    RequestPermissionResponse,
    ResumeSessionResponse,
    ToolCallUpdate,
)
from pydantic import ValidationError

from hostler_acp.failures import AcpFailure
from hostler_acp.limits import MAX_EXCERPT_CHARS
from hostler_acp.notes import Notes
from hostler_acp.offers import McpServers
from hostler_acp.process import AgentProcess
from hostler_acp.settings import Settings
from hostler_acp.transport import AgentTransport

AUTH_REQUIRED, METHOD_NOT_FOUND = -32000, -32601
Decide = Callable[[ToolCallUpdate, list[PermissionOption]], Awaitable[RequestPermissionResponse]]
_T = TypeVar("_T")


class SessionLost(Exception):  # noqa: N818 - an answer of the agent
    """The agent cannot load the session; the text says why."""


class Opened(NamedTuple):
    """A session that takes prompts."""

    id: str
    is_new: bool


class Client:
    """What the agent may ask of its client: permissions. It reads and writes files itself."""

    def __init__(self) -> None:
        self.decide: Decide | None = None

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        """Answer a permission request."""
        if self.decide is None:
            raise acp.RequestError.invalid_request({"reason": "there is no turn"})
        return await self.decide(tool_call, options)


class Agent:
    """An agent that has started and answered `initialize`."""

    def __init__(self, settings: Settings, process: AgentProcess, notes: Notes) -> None:
        self._settings = settings
        self._process = process
        self._title = settings.provider.title
        self.client = Client()
        self.transport = AgentTransport(process, notes)
        self._connection = acp.connect_to_agent(cast("acp.Client", self.client), self.transport)
        self._notes = notes
        self.about = InitializeResponse(protocol_version=acp.PROTOCOL_VERSION)
        self.started = False

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the agent offers."""
        return self.about.agent_capabilities or AgentCapabilities()

    @property
    def can_continue(self) -> bool:
        """Whether another process of the agent can go on with a session."""
        return bool(self._ways_back())

    @property
    def _resumes(self) -> bool:
        offered = self.capabilities.session_capabilities
        return offered is not None and offered.resume is not None

    async def initialize(self) -> None:
        """Agree on the version, and sign in if the settings say how. Raises AcpFailure."""
        self.about = await self._ask(
            self._connection.initialize(
                protocol_version=acp.PROTOCOL_VERSION,
                client_capabilities=ClientCapabilities(),
                client_info=Implementation(name="hostler", title="Hostler", version="1"),
            )
        )
        if self.about.protocol_version != acp.PROTOCOL_VERSION:
            raise AcpFailure(
                "version_unsupported",
                f"{self._title} speaks version {self.about.protocol_version} of the Agent Client Protocol, "
                f"and this runner speaks {acp.PROTOCOL_VERSION}; install another version of the agent",
            )
        if method := self._settings.auth_method:
            offered = [one.id for one in self.about.auth_methods or []]
            if method not in offered:
                raise AcpFailure(
                    "config_invalid",
                    f"config `auth-method` is {method!r:.80}; {self._title} offers "
                    f"{', '.join(offered) or 'no method'}",
                )
            await self._ask(self._connection.authenticate(method_id=method))

    async def open(self, known: str | None, servers: McpServers) -> Opened:
        """Open the known session, else a new one. Raises AcpFailure, and SessionLost for a known one."""
        folder = str(self._settings.folder)
        answer: NewSessionResponse | LoadSessionResponse | ResumeSessionResponse
        if known is None:
            answer = await self._ask(self._connection.new_session(cwd=folder, mcp_servers=[*servers]))
            known, is_new = answer.session_id, True
        else:
            answer, is_new = await self._again(known, folder, servers), False
        if self._settings.mode:
            await self._set_mode(known, answer)
        self.started = True
        return Opened(known, is_new)

    async def _again(
        self, known: str, folder: str, servers: McpServers
    ) -> LoadSessionResponse | ResumeSessionResponse:
        failure: AcpFailure | None = None
        for load in self._ways_back():
            try:
                return await self._ask(load(cwd=folder, session_id=known, mcp_servers=[*servers]))
            except AcpFailure as error:
                if error.what not in ("start_failed", "response_invalid") or self.transport.is_over:
                    raise
                failure = error
        raise SessionLost(failure or f"{self._title} offers neither session/load nor session/resume")

    def _ways_back(self) -> list[Callable[..., Awaitable[LoadSessionResponse | ResumeSessionResponse]]]:
        """Return what opens a session again; the first repeats none of its messages."""
        ways: list[Callable[..., Awaitable[LoadSessionResponse | ResumeSessionResponse]]] = []
        ways += [self._connection.resume_session] if self._resumes else []
        ways += [self._connection.load_session] if self.capabilities.load_session else []
        return ways

    async def _set_mode(self, id_: str, answer: Any) -> None:
        mode = self._settings.mode
        offered = [one.id for one in answer.modes.available_modes] if answer.modes else []
        if mode not in offered:
            raise AcpFailure(
                "config_invalid",
                f"config `mode` is {mode!r:.80}; {self._title} offers {', '.join(offered) or 'no modes'}",
            )
        if answer.modes.current_mode_id != mode:
            await self._ask(self._connection.set_session_mode(session_id=id_, mode_id=mode))

    async def prompt(self, id_: str, content: list[Any]) -> PromptResponse:
        """Send a message, and return the answer to it once all its updates were taken. Raises AcpFailure."""
        return await self._ask(self._connection.prompt(session_id=id_, prompt=content))

    async def cancel(self, id_: str) -> None:
        """Tell the agent to end its turn. One that is gone has ended it."""
        with contextlib.suppress(ConnectionError):
            await self._connection.cancel(session_id=id_)

    async def close(self) -> None:
        """Close the connection; the process is ended by `running`."""
        await self._connection.close()

    async def _ask(self, request: Awaitable[_T]) -> _T:
        """Wait for an answer. Raises AcpFailure for an error, for a misfit, and if the agent ends."""
        try:
            return await request
        except acp.RequestError as error:
            raise self._refused(error) from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            raise AcpFailure(
                "response_invalid",
                f"an answer of {self._title} does not have the form of the protocol: "
                f"{'.'.join(map(str, first['loc']))}: {first['msg']:.200}; install another version of it",
            ) from None
        except ConnectionError:
            if self.transport.failure is not None:
                raise self.transport.failure from None
            raise await self._ended() from None

    def _refused(self, error: acp.RequestError) -> AcpFailure:
        detail = _detail(error.data)
        said = self._shown(f"{error}: {detail}" if detail else str(error))
        if error.code == AUTH_REQUIRED:
            methods = "; ".join(f"{one.id} ({one.name})" for one in self.about.auth_methods or [])
            return AcpFailure(
                "auth_required",
                f"{self._title} wants a sign-in: {said}. Set config `api-key`"
                + (f", or `auth-method` to one of its methods: {methods:.400}" if methods else ""),
            )
        if not self.started:
            return AcpFailure("start_failed", f"{self._title} refused to start: {said}")
        return AcpFailure("agent_error", f"{self._title} reported an error: {said}", retryable=True)

    async def _ended(self) -> AcpFailure:
        status = await self._process.exit_status()
        said = self._shown(await self._process.said(), end=True)
        told = f"; it said: {said}" if said else " and said nothing"
        if not self.started:
            return AcpFailure(
                "start_failed",
                f"`{self._settings.argv[0]:.100}` {status} before it had a session{told}. Check config "
                "`command`: it must start an agent that speaks the Agent Client Protocol over stdio",
            )
        return AcpFailure(
            "agent_died", f"{self._title} {status} in the middle of its answer{told}. Ask again", True
        )

    def _shown(self, text: str, *, end: bool = False) -> str:
        text = self._settings.without_secrets(text)
        return text[-MAX_EXCERPT_CHARS:] if end else text[:MAX_EXCERPT_CHARS]


def _detail(data: Any) -> str:
    """Return what the data of an error say, for a message."""
    if isinstance(data, dict):
        data = next((data[name] for name in ("message", "details", "reason") if data.get(name)), data)
    if data in (None, "", {}, []):
        return ""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


@asynccontextmanager
async def running(settings: Settings, offered: Mapping[str, str], notes: Notes) -> AsyncIterator[Agent]:
    """Start the agent; end it with everything that it started. Raises AcpFailure.

    `offered`: further variables, for which those of the settings go first.
    """
    process = await AgentProcess.start(settings, offered)
    try:
        agent = Agent(settings, process, notes)
        try:
            yield agent
        finally:
            agent.transport.on_update = None
            await agent.close()
    finally:
        await process.stop()
