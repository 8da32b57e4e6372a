"""Who may write references to secrets into a configuration, and change the values beside them.

The same rule decides for agents, and for runs with a configuration of their own: forks and replays.
"""

from __future__ import annotations

from hostler.domain.agents import AgentSpec
from hostler.domain.allowances import Allowance
from hostler.domain.record import Record
from hostler.domain.secret_refs import reference_names, shown_reference, stored_name
from hostler_protocol.errors import UnauthorizedError


class ReferenceRights(Record):
    """What a caller may do with references: `may` of its workspace, and whether it has the rights
    `installation` and `secrets:write`.
    """

    may: Allowance
    installation: bool
    secrets_write: bool

    def check(
        self, before: AgentSpec | None, after: AgentSpec, *, instead: str = "write the value itself"
    ) -> None:
        """Raise UnauthorizedError for references that the workspace or the caller may not use.

        If the configuration lists the secrets of the workspace, nobody writes others into its agents.
        Otherwise references need the right `installation`, and those to stored secrets of the workspace
        `secrets:write`.

        The references of `before` may stay if runner and configuration are unchanged: another runner, or
        another address next to the reference, could obtain the secret. The type of a form item is ignored,
        since a plugin may change it later. `instead`: what the caller may do, for the error.
        """
        names = reference_names(after.config)
        if self.may.lists_secrets:
            refused = [after.config[name] for name in names if not self.may.secret(after.config[name])]
            if refused and before != after:
                raise UnauthorizedError(self.may.refused("secret", shown_reference(refused[0][:300])))
            return
        if self.secrets_write:
            names = [name for name in names if stored_name(after.config[name]) is None]
        if not names or self.installation:
            return
        if before is not None and (before.runner, before.config) == (after.runner, after.config):
            return
        raise UnauthorizedError(
            f"config: {', '.join(map(repr, names))[:300]} refers to a secret: only a key with the right "
            "'installation' (for secret://NAME: 'secrets:write') may write that, or change the configuration "
            f"that contains it; {instead}",
            right="installation",
        )
