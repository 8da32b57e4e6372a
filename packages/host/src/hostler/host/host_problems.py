"""All problems of one host's configuration, from the parts that find them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.channels.hooks import Hooks
from hostler.channels.widgets import Widgets
from hostler.domain.config_changes import ConfigProblem
from hostler.domain.record import Record
from hostler.host.audit_anchors import AnchorWriter
from hostler.host.diagnosis import Diagnosis
from hostler.host.identity_providers import IdentityProviders
from hostler.host.master_key import MasterKey
from hostler.host.planned_config import PlannedConfig
from hostler.host.sealing_upkeep import SealingUpkeep
from hostler.secrets.known_values import redact


class HostProblems(Record):
    """Finds the problems of a host's configuration."""

    diagnosis: Diagnosis
    audit_anchors: AnchorWriter
    master_key: MasterKey
    providers: IdentityProviders
    sealing_upkeep: SealingUpkeep
    hooks: Hooks
    widgets: Widgets

    async def find(self, planned: PlannedConfig | None = None) -> list[ConfigProblem]:
        """Return the problems now, or those that there would be. See `Diagnosis.problems`."""
        others = [
            *self.audit_anchors.problems(),
            *await self.master_key.problems(),
            *self.providers.problems(),
            *await self.sealing_upkeep.problems(),
        ]
        hooks = widgets = agents = None
        if planned is not None:
            others = [one for one in others if planned.leaves(one.kind, one.name)]
            hooks, widgets = planned.config.hooks, planned.config.widgets
            agents = {spec.name for spec in planned.config.agents}
        return redacted(
            [
                *await self.diagnosis.problems(planned),
                *others,
                *await self.hooks.problems(hooks, agents),
                *await self.widgets.problems(widgets, agents),
            ]
        )


def redacted(problems: Iterable[ConfigProblem]) -> list[ConfigProblem]:
    """Return problems without the secrets that their texts quote."""
    return [msgspec.structs.replace(problem, problem=redact(problem.problem)) for problem in problems]
