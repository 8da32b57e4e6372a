"""Bounds of what a document may make of the host. Each has a test that reaches it."""

from __future__ import annotations

from hostler_protocol.limits import KIB, MIB

MAX_DOCUMENT_BYTES = 16 * MIB
"""A document as JSON; the largest that is published in earnest has 12 MiB."""
MAX_YAML_BYTES = 4 * MIB
"""The same as YAML, which takes some seconds a megabyte to read."""
MAX_DOCUMENT_DEPTH = 100
MAX_DOCUMENT_NODES = 2_000_000
"""Values of a document, those that aliases repeat counted each time."""
MAX_OPERATIONS = 5_000
"""Operations that are looked at."""
MAX_TOOLS = 500
"""Operations of one document that become tools: an agent can't choose among more."""
MAX_REFERENCES = 32
"""References that lead to each other."""
MAX_SCHEMA_PARTS = 4_000
"""Schemas within those of one operation."""
MAX_PARAMETERS = 200
MAX_DESCRIPTION_CHARS = 2_000
"""Of a tool: summary and description of its operation."""
MAX_PART_DESCRIPTION_CHARS = 500
"""Of each parameter and property."""
MAX_PROBLEMS = 100
"""Operations that are told of because they can't be tools."""
MAX_ERROR_CHARS = 2_000
"""Of an error's body, told to the model."""
MAX_PREVIEW_BYTES = 2 * KIB
"""Of a body that is told in part."""
MAX_SENT_BYTES = 16 * MIB
"""The files of one call: they are in memory while it is made."""
MAX_URL_CHARS = 8_000
MAX_TRIES = 3
"""Of what only reads, where the service asks to come again."""
FIRST_WAIT_SECONDS = 0.5
MAX_WAIT_SECONDS = 10.0
"""The longest that a service's Retry-After is waited for."""
