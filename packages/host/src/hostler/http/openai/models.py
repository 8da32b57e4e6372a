"""Agents as models, which is what clients of OpenAI's interfaces choose from."""

from __future__ import annotations

from typing import Literal

from hostler.domain.narrow_callers import check_agent
from hostler.http.openai.dialect import ModelNotFoundError
from hostler.http.request import ApiRequest
from hostler.storage.stores import agents
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError

OWNER = "hostler"


class AgentModel(Strict):
    """An agent as a model: `id` is its name, `created` when it was made, in UTC epoch seconds."""

    id: str
    created: int
    owned_by: str = OWNER
    object: Literal["model"] = "model"


async def models_of(request: ApiRequest) -> list[AgentModel]:
    """Return the enabled agents that the caller reaches in its workspace, by name."""
    host, workspace, scope = request.state.host, request.workspace_id, request.caller.scope
    created = await host.db.read(lambda tx: agents.created(tx, workspace))
    return [
        AgentModel(id=agent.name, created=created.get(agent.name, 0) // 1000)
        for agent in await host.event_router.agents(workspace)
        if agent.spec.enabled and (scope is None or scope.agent == agent.name)
    ]


async def find_model(request: ApiRequest, name: str) -> AgentModel:
    """Return an agent as a model. ModelNotFoundError if none that is enabled has the name."""
    for model in await models_of(request):
        if model.id == name:
            return model
    raise ModelNotFoundError(name)


async def check_model(request: ApiRequest, name: str) -> None:
    """Raise ModelNotFoundError unless the caller reaches an agent of this name, be it enabled or not."""
    try:
        check_agent(request.caller, name)
    except NotFoundError:
        raise ModelNotFoundError(name) from None
    host, workspace = request.state.host, request.workspace_id
    if any(agent.name == name for agent in await host.event_router.agents(workspace)):
        return
    if "\x00" in name or not await host.db.read(lambda tx: agents.current_version(tx, workspace, name)):
        raise ModelNotFoundError(name)
