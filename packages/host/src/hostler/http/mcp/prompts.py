"""Prompts of agents, which a client's user picks: each is a message of its user."""

from __future__ import annotations

from typing import Any, NamedTuple

from hostler.domain.agents import Agent
from hostler.domain.prompts import Prompt, PromptArgument, filled
from hostler.http.mcp.messages import INVALID_PARAMS, RpcError, RpcMessage, text_block
from hostler.http.mcp.offers import agents_of, tool_name
from hostler.http.request import ApiRequest

MAX_ON_PAGE = 100


class _Offered(NamedTuple):
    """A prompt and its agent."""

    agent: Agent
    prompt: Prompt

    @property
    def name(self) -> str:
        """The name among the prompts of all agents. The last dot ends the agent's: prompts have none."""
        return f"{tool_name(self.agent)}.{self.prompt.name}"

    @property
    def description(self) -> str:
        """What its users are told of it."""
        return self.prompt.description or f"A message for the agent {self.agent.name}."


async def _offered(request: ApiRequest) -> list[_Offered]:
    """Return the prompts of the agents that are tools, by name."""
    found = [_Offered(agent, one) for agent in await agents_of(request) for one in agent.spec.prompts]
    return sorted(found, key=lambda offered: offered.name)


async def list_prompts(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Return a page of prompts. RpcError for a cursor that is none."""
    cursor = message.params.get("cursor")
    after = "" if cursor is None else cursor
    if not isinstance(after, str):
        raise RpcError(INVALID_PARAMS, "cursor: expected the nextCursor of a page of prompts/list")
    rest = [offered for offered in await _offered(request) if offered.name > after]
    shown = rest[:MAX_ON_PAGE]
    more = {"nextCursor": shown[-1].name} if len(rest) > len(shown) else {}
    return {"prompts": [_definition(offered) for offered in shown], **more}


def _definition(offered: _Offered) -> dict[str, Any]:
    prompt = offered.prompt
    arguments = [_argument(argument) for argument in prompt.arguments]
    return {
        "name": offered.name,
        **({"title": prompt.title} if prompt.title else {}),
        "description": offered.description,
        **({"arguments": arguments} if arguments else {}),
    }


def _argument(argument: PromptArgument) -> dict[str, Any]:
    described = {"description": argument.description} if argument.description else {}
    return {"name": argument.name, "required": argument.required, **described}


async def get_prompt(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Return a prompt with its arguments. RpcError if there is none of this name, or for a value that is no
    text; InvalidArgumentError for an argument that is missing or unknown.
    """
    offered = await _find(request, message.params.get("name"))
    given = message.params.get("arguments")
    values = {} if given is None else given
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise RpcError(INVALID_PARAMS, "arguments: expected an object whose values are texts")
    content = text_block(filled(offered.prompt, values))
    return {"description": offered.description, "messages": [{"role": "user", "content": content}]}


async def check_argument(request: ApiRequest, name: Any, argument: str) -> None:
    """Raise RpcError unless there is a prompt of this name, and it has the argument."""
    offered = await _find(request, name)
    if argument not in {one.name for one in offered.prompt.arguments}:
        raise RpcError(
            INVALID_PARAMS, f"argument: the prompt {name!r:.200} has no argument {argument!r:.100}"
        )


async def _find(request: ApiRequest, name: Any) -> _Offered:
    for offered in await _offered(request):
        if offered.name == name:
            return offered
    raise RpcError(INVALID_PARAMS, f"there is no prompt {name!r:.200}: prompts/list has those that there are")
