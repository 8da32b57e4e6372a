"""Tamperings with what is stored and counted."""

from __future__ import annotations

from simulation.tampering import Tampering

QUOTAS = [
    Tampering(
        "quotas._counted",
        "is counted",
        "UPDATE quota_use SET state_bytes = state_bytes + 1 WHERE level = 'agent'",
    ),
    Tampering(
        "quotas._counted",
        "and None is counted",
        "DELETE FROM quota_use WHERE level = 'workspace'",
    ),
    Tampering(
        "quotas._counted",
        "is counted",
        "UPDATE states SET value = value || ' '",
    ),
    Tampering(
        "quotas._bounded",
        "and may store 1",
        "UPDATE agent_versions SET spec = json_set(spec, '$.resource_policy.quota.max_state_bytes', 1)",
    ),
]
