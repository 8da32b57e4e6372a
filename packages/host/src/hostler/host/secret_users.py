"""The entries and agents that refer to stored secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.domain.stored_secrets import SecretOwner, by_name, places_of
from hostler.host.config_entries import entries_by_kind
from hostler.host.stored_config import read_config
from hostler.storage.port import Tx
from hostler.storage.stores import agents


def secret_users(tx: Tx, workspace_id: str, owner: SecretOwner) -> Mapping[str, Sequence[str]]:
    """Return the places that refer to an owner's secrets, by the name of the secret.

    Those of `workspace` are in its agents, as they are now; those of `installation` in the other entries.
    """
    if owner == "workspace":
        specs = [agent.spec for agent in agents.active(tx, workspace_id)]
        return by_name(found for spec in specs for found in places_of("agent", spec.name, spec))
    entries = entries_by_kind(read_config(tx, workspace_id).config, {})
    return by_name(
        found
        for kind, named in entries.items()
        if kind != "agent"
        for name, entry in named.items()
        for found in places_of(kind, name, entry)
    )
