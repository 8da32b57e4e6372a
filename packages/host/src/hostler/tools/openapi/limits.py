"""Limits for OpenAPI documents and calls. Each has a test that reaches it."""

from __future__ import annotations

from hostler_protocol.limits import KIB, MIB

MAX_DOCUMENT_BYTES = 16 * MIB
"""A document as JSON; the largest one known in public use has 12 MiB."""
MAX_YAML_BYTES = 4 * MIB
"""A document as YAML, which takes some seconds per megabyte to read."""
MAX_DOCUMENT_DEPTH = 100
MAX_DOCUMENT_NODES = 2_000_000
"""Values of a document; those repeated by aliases count each time."""
MAX_OPERATIONS = 5_000
"""Operations of a document that are read."""
MAX_TOOLS = 500
"""Operations of one document that become tools: no agent can choose among more."""
MAX_REFERENCES = 32
"""References in a chain."""
MAX_SCHEMA_PARTS = 4_000
"""Nested schemas of one operation."""
MAX_PARAMETERS = 200
MAX_DESCRIPTION_CHARS = 2_000
"""Description of a tool: summary and description of its operation."""
MAX_PART_DESCRIPTION_CHARS = 500
"""Description of a parameter or property."""
MAX_PROBLEMS = 100
"""Operations that cannot be tools and are reported."""
MAX_ERROR_CHARS = 2_000
"""Part of an error response's body that the model gets."""
MAX_PREVIEW_BYTES = 2 * KIB
"""Part of a truncated body that the model gets."""
MAX_SENT_BYTES = 16 * MIB
"""Files of one call, which are in memory during the call."""
MAX_URL_CHARS = 8_000
MAX_TRIES = 3
"""Attempts of a read-only call if the service asks to retry."""
FIRST_WAIT_SECONDS = 0.5
MAX_WAIT_SECONDS = 10.0
"""A service's Retry-After is respected up to this."""
