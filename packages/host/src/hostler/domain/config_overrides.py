"""Values that take the place of an agent's in one run: a fork, or a replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.domain.record import Record
from hostler.domain.reference_rights import ReferenceRights
from hostler.domain.secret_refs import is_reference, is_sealed
from hostler.domain.written_secrets import secret_names
from hostler_protocol.errors import ConflictError, InvalidArgumentError, UnauthorizedError

_PROMPT = "prompt-editor"


class ConfigOverrides(Record):
    """Values by name, and what the caller who gives them may do with references to secrets."""

    values: Mapping[str, Any]
    rights: ReferenceRights

    def check(self, spec: AgentSpec, form: Mapping[str, str] | None) -> None:
        """Check the values for an agent with the configuration that they change.

        `form`: the kinds of the items of its runner's form by name. Prompts may be changed always, and
        secrets never, since a run stores none. Any other value might say where a secret is sent: beside one
        that is written out none may be changed, and beside a reference those that the caller may change in
        the agent, too. InvalidArgumentError, UnauthorizedError; ConflictError without a form.
        """
        if not self.values:
            return
        if form is None:
            raise ConflictError(
                f"config: the form of {spec.runner} is not known, since its plugin has not been started yet: "
                "nothing can be changed until it was"
            )
        secret = sorted(
            name
            for name, value in self.values.items()
            if is_sealed(value) or form.get(name, "secret" if isinstance(value, str) else "") == "secret"
        )
        if secret:
            why = "" if secret[0] in form else ", and the runner's form does not say that this is none"
            raise InvalidArgumentError(
                f"config.{secret[0]}: a fork or replay cannot change secrets{why}: change the agent"
            )
        others = sorted(
            name for name, value in self.values.items() if form.get(name) != _PROMPT or is_reference(value)
        )
        if not others:
            return
        if secret_names(spec.config, form):
            raise UnauthorizedError(
                f"config.{others[0]}: beside a secret that is written out a fork or replay may only change "
                "prompts: change the agent"
            )
        changed = {**spec.config, **{name: self.values[name] for name in others}}
        after = msgspec.structs.replace(spec, config=changed)
        self.rights.check(spec, after, instead="without it a fork or replay may change prompts only")
