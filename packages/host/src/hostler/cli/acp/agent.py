"""The methods of the protocol, on the agent's side."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Generic, NamedTuple, TypeVar

import acp
from acp.schema import (
    AgentCapabilities,
    AuthenticateRequest,
    AuthenticateResponse,
    AuthEnvVar,
    CancelNotification,
    ClientCapabilities,
    CloseSessionRequest,
    CloseSessionResponse,
    DeleteSessionRequest,
    DeleteSessionResponse,
    EnvVarAuthMethod,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionRequest,
    NewSessionResponse,
    PromptCapabilities,
    PromptRequest,
    PromptResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionDeleteCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionConfigOptionSelectRequest,
)
from pydantic import BaseModel, ValidationError

from hostler.cli.acp.editor import Editor
from hostler.cli.acp.faults import AUTH_REQUIRED, INTERNAL, INVALID_REQUEST, NOT_FOUND, invalid, request_error
from hostler.cli.acp.host_access import HostAccess, quietly
from hostler.cli.acp.limits import LOAD_SECONDS, MAX_AGENTS, MAX_SESSIONS
from hostler.cli.acp.own_commands import commands_update
from hostler.cli.acp.replay import Conversation
from hostler.cli.acp.session import Session
from hostler.cli.acp.sessions import list_sessions, session_details
from hostler.cli.acp.wire import EditorTransport
from hostler.cli.routes import route
from hostler.version import VERSION
from hostler_protocol.errors import HostlerError, UnauthorizedError
from hostler_protocol.ids import new_id

AUTH_METHOD = "hostler-key"
AGENT_OPTION = "agent"
M = TypeVar("M", bound=BaseModel)
Option = SessionConfigOptionSelect | SessionConfigOptionBoolean
log = logging.getLogger(__name__)


class Method(NamedTuple, Generic[M]):
    """A request: the type of its parameters, and the function that answers it."""

    params: type[M]
    answer: Callable[[M], Awaitable[BaseModel]]


class AcpAgent:
    """Serves one editor. Sessions are conversations of the host; this has only those that are open."""

    def __init__(
        self, host: HostAccess, transport: EditorTransport, *, cancel_on_disconnect: bool = False
    ) -> None:
        self._host = host
        self._editor = Editor(transport, self.handle)
        self._cancel_on_disconnect = cancel_on_disconnect
        self._initialized = False
        self._sessions: dict[str, Session] = {}
        names = acp.AGENT_METHODS
        self._methods: dict[str, Method[Any]] = {
            names["initialize"]: Method(InitializeRequest, self._initialize),
            names["authenticate"]: Method(AuthenticateRequest, self._authenticate),
            names["session_new"]: Method(NewSessionRequest, self._new),
            names["session_load"]: Method(LoadSessionRequest, self._load),
            names["session_resume"]: Method(ResumeSessionRequest, self._resume),
            names["session_list"]: Method(ListSessionsRequest, self._list),
            names["session_close"]: Method(CloseSessionRequest, self._close),
            names["session_delete"]: Method(DeleteSessionRequest, self._delete),
            names["session_prompt"]: Method(PromptRequest, self._prompt),
            names["session_set_config_option"]: Method(SetSessionConfigOptionSelectRequest, self._set_option),
        }

    async def serve(self) -> None:
        """Serve until the editor is gone."""
        try:
            await self._editor.serve()
            if self._cancel_on_disconnect:
                await self._cancel_all()
        finally:
            await self._editor.close()

    async def _cancel_all(self) -> None:
        cancels = [
            quietly(
                self._host.once(
                    lambda api, run_id=run_id: api.post(  # type: ignore[misc]
                        route("runs", run_id, "cancel"), {"reason": "the editor disconnected"}
                    )
                )
            )
            for session in self._sessions.values()
            for run_id in session.active_runs
        ]
        await asyncio.gather(*cancels)

    async def handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Answer a request, or take a notification. RequestError."""
        if is_notification:
            self._take(method, params)
            return None
        found = self._methods.get(method)
        if found is None:
            raise acp.RequestError.method_not_found(method)
        if not self._initialized and method != acp.AGENT_METHODS["initialize"]:
            raise acp.RequestError(INVALID_REQUEST, "initialize first")
        try:
            return await found.answer(_read(found.params, params))
        except HostlerError as error:
            raise request_error(error) from None
        except acp.RequestError:
            raise
        except ConnectionError as error:
            raise acp.RequestError(INTERNAL, str(error)) from None
        except Exception:
            log.exception("%s failed", method)
            text = "this is a bug in hostler; standard error has the details"
            raise acp.RequestError(INTERNAL, text, {"code": "runtime_error"}) from None

    def _take(self, method: str, params: Any) -> None:
        if method != acp.AGENT_METHODS["session_cancel"]:
            return
        try:
            asked = CancelNotification.model_validate(params)
        except ValidationError as error:
            log.info("session/cancel: %s", _sentence(error))
            return
        session = self._sessions.get(asked.session_id)
        if session is not None:
            session.cancel()

    # -- the connection -----------------------------------------------------------------------------------

    async def _initialize(self, asked: InitializeRequest) -> InitializeResponse:
        self._initialized = True
        if isinstance(asked.client_capabilities, ClientCapabilities):
            self._editor.capabilities = asked.client_capabilities
        if isinstance(asked.client_info, Implementation):
            self._editor.name = f"{asked.client_info.name} {asked.client_info.version}".strip()[:200]
        return InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_info=Implementation(name="hostler", title="Hostler", version=VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=False, sse=False),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                    delete=SessionDeleteCapabilities(),
                ),
            ),
            auth_methods=[
                EnvVarAuthMethod(
                    type="env_var",
                    id=AUTH_METHOD,
                    name="Hostler API key",
                    description="Set HOSTLER_KEY (and HOSTLER_URL) in this command's environment; without "
                    "an address, the server of its data directory is used.",
                    vars=[
                        AuthEnvVar(name="HOSTLER_KEY", label="API key"),
                        AuthEnvVar(
                            name="HOSTLER_URL", label="Address of the host", secret=False, optional=True
                        ),
                    ],
                )
            ],
        )

    async def _authenticate(self, asked: AuthenticateRequest) -> AuthenticateResponse:
        if asked.method_id != AUTH_METHOD:
            raise invalid(f"methodId: the only method is {AUTH_METHOD}")
        await self._agent()
        return AuthenticateResponse()

    async def _agent(self) -> str:
        """Return the name of the command's agent. RequestError `auth_required` without a valid key."""
        try:
            return await self._host.agent()
        except UnauthorizedError as error:
            found = request_error(error)
            if found.code == AUTH_REQUIRED:
                found = acp.RequestError(
                    AUTH_REQUIRED, f"Authentication required: {error.message}", found.data
                )
            raise found from None

    # -- sessions -----------------------------------------------------------------------------------------

    async def _new(self, asked: NewSessionRequest) -> NewSessionResponse:
        folder = _folder(asked.cwd)
        agent = await self._agent()
        session = self._open(new_id(), folder, agent, asked.mcp_servers)
        options = await self._options(session)
        self._editor.after_answer(lambda: self._announce(session))
        return NewSessionResponse(session_id=session.id, config_options=options)

    async def _load(self, asked: LoadSessionRequest) -> LoadSessionResponse:
        session, conversation = await self._again(asked, messages=True)
        await conversation.repeat()
        followers = [(session.follow(run["run_id"]), run) for run in conversation.active]
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                for follower, run in followers:
                    await follower.shown_until(run.get("sequence") or 0)
        except TimeoutError:
            log.warning("the session %s is shown as it comes", session.id)
        self._editor.after_answer(lambda: self._announce(session))
        return LoadSessionResponse(config_options=await self._options(session))

    async def _resume(self, asked: ResumeSessionRequest) -> ResumeSessionResponse:
        session, conversation = await self._again(asked, messages=False)

        def go_on() -> None:
            self._announce(session)
            for run in conversation.active:
                session.follow(run["run_id"])

        self._editor.after_answer(go_on)
        return ResumeSessionResponse(config_options=await self._options(session))

    async def _again(
        self, asked: LoadSessionRequest | ResumeSessionRequest, *, messages: bool
    ) -> tuple[Session, Conversation]:
        """Open a session that the host has. RequestError `resource not found` if it has none."""
        folder = _folder(asked.cwd)
        agent = await self._agent()
        conversation = Conversation(self._editor, self._host, asked.session_id)
        await conversation.read(messages=messages)
        if not conversation.exists and asked.session_id not in self._sessions:
            raise acp.RequestError(NOT_FOUND, f"there is no session {asked.session_id!r:.200}")
        session = self._open(asked.session_id, folder, agent, asked.mcp_servers)
        if conversation.runs:
            latest = conversation.runs[-1]
            session.title = (await session_details(self._host, latest)).get("title")
            if latest["agent"] in await self._agent_names():
                session.agent = latest["agent"]
        return session, conversation

    async def _list(self, asked: ListSessionsRequest) -> ListSessionsResponse:
        folder = None if asked.cwd is None else _folder(asked.cwd)
        return await list_sessions(self._host, await self._agent(), folder, asked.cursor)

    async def _close(self, asked: CloseSessionRequest) -> CloseSessionResponse:
        session = self._session(asked.session_id)
        session.cancel()
        del self._sessions[asked.session_id]
        return CloseSessionResponse()

    async def _delete(self, asked: DeleteSessionRequest) -> DeleteSessionResponse:
        await self._agent()
        path = route("conversations", asked.session_id)
        await self._host.ask(lambda api: api.delete(path))
        if (session := self._sessions.pop(asked.session_id, None)) is not None:
            session.leave()
        return DeleteSessionResponse()

    async def _prompt(self, asked: PromptRequest) -> PromptResponse:
        return await self._session(asked.session_id).prompt(asked.prompt)

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise acp.RequestError(
                NOT_FOUND, f"the session {session_id!r:.200} is not open: use session/new, or session/load"
            )
        return session

    def _open(self, session_id: str, folder: str, agent: str, mcp_servers: Any) -> Session:
        earlier = self._sessions.pop(session_id, None)
        if earlier is not None:
            earlier.leave()
        if len(self._sessions) >= MAX_SESSIONS:
            idle = next((one.id for one in self._sessions.values() if one.is_idle), None)
            if idle is None:
                raise acp.RequestError(INVALID_REQUEST, f"{MAX_SESSIONS} sessions are at work: close one")
            del self._sessions[idle]
        session = self._sessions[session_id] = Session(self._editor, self._host, session_id, folder, agent)
        session.mcp_servers = [one.name for one in mcp_servers or []]
        return session

    def _announce(self, session: Session) -> None:
        update = self._editor.update(session.id, commands_update())
        self._editor.tasks.create(update, name=f"announce {session.id}")

    # -- the agent of a session ---------------------------------------------------------------------------

    async def _agent_names(self) -> list[str]:
        """Return the agents that this key may see; the command's own alone if it may not list them."""
        listed = await quietly(self._host.ask(lambda api: api.items("/v1/agents", limit=MAX_AGENTS)))
        own = await self._agent()
        return list(dict.fromkeys([own, *(agent["name"] for agent in listed or [])]))

    async def _options(self, session: Session) -> list[Option]:
        names = await self._agent_names()
        return [
            SessionConfigOptionSelect(
                type="select",
                id=AGENT_OPTION,
                name="Agent",
                description="The agent of the host that answers from now on",
                current_value=session.agent,
                options=[SessionConfigSelectOption(value=name, name=name) for name in names],
            )
        ]

    async def _set_option(self, asked: SetSessionConfigOptionSelectRequest) -> SetSessionConfigOptionResponse:
        session = self._session(asked.session_id)
        if asked.config_id != AGENT_OPTION:
            raise invalid(f"configId: the only option is {AGENT_OPTION}")
        names = await self._agent_names()
        if asked.value not in names:
            raise invalid(
                f"value: there is no agent {asked.value!r:.200}; there are: {', '.join(names)[:1000]}"
            )
        session.agent = asked.value
        return SetSessionConfigOptionResponse(config_options=await self._options(session))


def _read(kind: type[M], params: Any) -> M:
    try:
        return kind.model_validate({} if params is None else params)
    except ValidationError as error:
        raise invalid(_sentence(error)) from None
    except RecursionError:
        raise invalid("params: nested too deeply") from None


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'params'}: {first['msg']}"[:500]


def _folder(cwd: str) -> str:
    if not (PurePosixPath(cwd).is_absolute() or PureWindowsPath(cwd).is_absolute()) or "\x00" in cwd:
        raise invalid(f"cwd: expected an absolute path, not {cwd!r:.200}")
    return cwd
