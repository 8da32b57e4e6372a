"""The words of Agent Protocol, of which LangGraph's server speaks most: what it says otherwise.

Agents are assistants by another name. A request that creates a run names its agent `agent_id`, or leaves that
to the server; its messages are beside its input, and so they are in answers. A run that waits is
`interrupted`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.messages import wrong
from hostler.http.langgraph.run_request import Command, RunCreate
from hostler.http.langgraph.threads import latest_run
from hostler.http.narrow import find_run
from hostler.http.request import ApiRequest
from hostler_protocol._base import Lenient

ProtocolStatus = Literal["pending", "error", "success", "timeout", "interrupted"]
_STATUSES: dict[str, ProtocolStatus] = {"running": "pending", "waiting": "interrupted"}
"""Of those that LangGraph has not, or names otherwise."""
_ROLES = {"human": "user", "ai": "assistant"}
_KEPT = ("content", "id", "tool_calls", "tool_call_id", "name", "status")
"""What is shown of a message of LangChain's, where it has a value."""


class RunResume(Lenient):
    """The body of a request that lets a run of a thread go on. `input`: the answer to what it waits for."""

    thread_id: str
    agent_id: str | None = None
    input: Any = msgspec.UNSET
    messages: list[Any] | None = None
    stream_mode: str | list[str] | None = None
    on_completion: Literal["delete", "keep"] | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    webhook: Any = None
    after_seconds: float | None = None

    @property
    def as_create(self) -> RunCreate:
        """The request as LangGraph has it. InvalidArgumentError if it does not say the answer."""
        if self.input is msgspec.UNSET or self.messages:
            raise wrong("input", "the answer to what the run waits for, and no messages")
        return RunCreate(
            agent_id=self.agent_id,
            command=Command(resume=self.input),
            stream_mode=self.stream_mode,
            on_completion=self.on_completion,
            on_disconnect=self.on_disconnect,
            webhook=self.webhook,
            after_seconds=self.after_seconds,
        )


def is_spoken(body: RunCreate) -> bool:
    """Whether a request is one of Agent Protocol: LangGraph's name their assistant."""
    return body.assistant_id is None


def as_langgraph(body: RunCreate, *, is_thread_known: bool) -> RunCreate:
    """Return a request of Agent Protocol with its input and its defaults as LangGraph has them.

    InvalidArgumentError for what this host does not have. `is_thread_known`: it names a thread that has to be
    there; that of a front-end token may begin with the run.
    """
    if body.on_completion == "delete":
        raise refused("on_completion", "what a run said is kept: DELETE /runs/{run_id} deletes it", "keep")
    given = body.input
    if body.messages is not None:
        if given is not None and not isinstance(given, dict):
            raise wrong("input", "an object, or nothing, beside messages")
        given = {**(given or {}), "messages": body.messages}
    return msgspec.structs.replace(
        body,
        input=given,
        if_not_exists=body.if_not_exists or ("reject" if is_thread_known else "create"),
        multitask_strategy=body.multitask_strategy or "reject",
        on_disconnect=body.on_disconnect or "cancel",
    )


async def agent_of(request: ApiRequest, named: str | None, thread_id: str, answered: str | None) -> str:
    """Return the agent of a request: the one that it names, that of the run `answered`, that of the thread's
    newest run, or the only one.

    InvalidArgumentError if there are several, NotFoundError for no such run.
    """
    if named is not None:
        return named
    if answered is not None:
        return (await find_run(request, answered)).agent_name
    scope = request.caller.scope
    if scope is not None:
        return scope.agent
    newest = await latest_run(request, thread_id)
    if newest is not None:
        return newest.agent_name
    known = await request.state.host.event_router.agents(request.workspace_id)
    enabled = [one.name for one in known if one.spec.enabled]
    if len(enabled) != 1:
        expected = "the id of an agent (`assistant_id` of LangGraph): this workspace has not just one"
        raise wrong("agent_id", expected)
    return enabled[0]


# -- answers ------------------------------------------------------------------------------------------------


def agent_record(assistant: dict[str, Any]) -> dict[str, Any]:
    """Return an assistant as an agent."""
    return {
        "agent_id": assistant["assistant_id"],
        "name": assistant["name"],
        "metadata": assistant["metadata"],
        "capabilities": {"ap.io.messages": True},
    }


def run_record(record: dict[str, Any], status: str) -> dict[str, Any]:
    """Return a run as Agent Protocol has it. `record`: as LangGraph has it. `status`: with `waiting`."""
    rest = {name: value for name, value in record.items() if name != "assistant_id"}
    return {**rest, "agent_id": record["assistant_id"], "status": status_of(status)}


def status_of(status: str) -> str:
    """Return how a run is. `status`: as LangGraph has it, or `waiting`."""
    return _STATUSES.get(status, status)


def messages_of(values: bytes) -> list[dict[str, Any]]:
    """Return the messages of a state. `values`: as LangGraph has them, JSON."""
    return _apart(values)[1]


def wait_record(run: dict[str, Any], values: bytes, error: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a request that waits is answered. `values`: as LangGraph has them, JSON."""
    rest, messages = _apart(values)
    if error is not None:
        rest["__error__"] = error
    return {"run": run, "values": rest, "messages": messages}


def _apart(values: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rest = msgspec.json.decode(values, type=dict[str, Any])
    return rest, [_message(one) for one in rest.pop("messages", [])]


def _message(message: dict[str, Any]) -> dict[str, Any]:
    kind = message["type"]
    kept = {name: message[name] for name in _KEPT if message.get(name) not in (None, [])}
    return {"content": "", **kept, "role": _ROLES.get(kind, kind)}
