"""What a run may start as a child run, and what the child inherits. Pure.

A child has the workspace, the actor and the bot of its parent, its conversation or none, and bounds that only
get narrower from each run to the next one below it. docs/decisions/what-a-child-run-may.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from hostler.domain.keys import check_id
from hostler.domain.name_patterns import matches
from hostler.domain.suggestions import MAX_LISTED
from hostler_protocol.content import ArtifactElement
from hostler_protocol.errors import HostlerError, NotFoundError, UnauthorizedError
from hostler_protocol.events import Actor, Input

FIELD = "resource_policy.allowed_agents"


class ParentBounds(msgspec.Struct, frozen=True):
    """Bounds that a run has from the runs above it, part of its grant. The default permits nothing."""

    allowed_agents: list[list[str]] = []
    """Names and patterns, a list for each run above: an agent has to match in each list."""
    cross_conversation_history: bool = False
    calls_per_second: float | None = None
    cross_account_state: bool = False
    cross_account_history: bool = False


def agent_refusal(allowed: Sequence[str], above: ParentBounds | None, agent: str) -> HostlerError | None:
    """Return why a run may not create a run of this agent, or None.

    `allowed`: the names and patterns of its own policy. The answer is the same whether the agent exists.
    """
    if not allowed:
        return UnauthorizedError(
            f"this run may create no runs: list the agents that it may create runs of in {FIELD} of its agent"
        )
    if not _matches_any(allowed, agent):
        return NotFoundError(
            f"agent {agent[:100]!r} is none that this run may create runs of ({_listed(allowed)}): "
            f"list it in {FIELD} of this run's agent"
        )
    for names in () if above is None else above.allowed_agents:
        if not _matches_any(names, agent):
            return NotFoundError(
                f"agent {agent[:100]!r} is none that a run above this one may create runs of: "
                f"list it in {FIELD} of that run's agent too"
            )
    return None


def bounds_below(
    allowed: Sequence[str],
    above: ParentBounds | None,
    *,
    cross_conversation_history: bool,
    calls_per_second: float | None,
    cross_account_state: bool = False,
    cross_account_history: bool = False,
) -> ParentBounds:
    """Return the bounds of the children of a run, given what its own grant holds."""
    lists = [list(allowed)]
    lists += [names for names in ([] if above is None else above.allowed_agents) if names not in lists]
    return ParentBounds(
        lists, cross_conversation_history, calls_per_second, cross_account_state, cross_account_history
    )


def check_actor(stated: Actor | None, actor: Actor | None) -> None:
    """Check the actor that a run states for its child. UnauthorizedError: it is not the run's own."""
    if stated is None:
        return
    if actor is None or (stated.actor_type, stated.actor_id) != (actor.actor_type, actor.actor_id):
        raise UnauthorizedError("a child run acts for the actor of this run and no other: leave actor out")


def artifact_references(given: Input) -> Iterator[tuple[str, str]]:
    """Yield everything stored that an input refers to: its place in the input, and the artifact's id.

    InvalidArgumentError: one is no id.
    """
    for number, element in enumerate(given.contents):
        if isinstance(element, ArtifactElement):
            yield _checked(f"input.contents[{number}].artifact_id", element.artifact_id)
    for number, ref in enumerate(given.attachments):
        yield _checked(f"input.attachments[{number}].artifact_id", ref.artifact_id)


def unreachable(place: str, artifact_id: str) -> NotFoundError:
    """Return the error for a reference to what the run may not read, whether or not it exists."""
    return NotFoundError(
        f"{place} {artifact_id[:100]!r} is no artifact that this run may see, so it cannot give it to a child"
    )


def _checked(place: str, artifact_id: str) -> tuple[str, str]:
    check_id(place, artifact_id)
    return place, artifact_id


def _matches_any(patterns: Sequence[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(f"{name[:100]!r}" for name in names[:MAX_LISTED]) + more or "none"
