"""Tamperings with families of runs: children that no policy permits, or that reach too far."""

from __future__ import annotations

from simulation.tampering import Tampering, one_of

FAMILIES = [
    Tampering(
        "families._permitted",
        "which permits []",
        """UPDATE agent_versions SET spec = json_remove(spec, '$.resource_policy.allowed_agents')""",
    ),
    Tampering(
        "families._permitted",
        "of turn was created below",
        one_of("runs", "parent_run_id IS NOT NULL", agent_name="'turn'"),
    ),
    Tampering(
        "families._inherited",
        "acts for ['user', 'else']",
        one_of("events", "source = 'system'", actor_id="'else'"),
    ),
    Tampering(
        "families._inherited",
        "is in conversation talk",
        one_of("runs", "parent_run_id IS NOT NULL", conversation_id="'talk'"),
    ),
]
