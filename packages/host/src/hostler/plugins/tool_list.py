"""Check a plugin's tool manifests, each on its own: an invalid tool does not affect the others."""

from __future__ import annotations

import re

import msgspec

from hostler.tools.schema import ToolSchema
from hostler.tools.schema_cost import SchemaError
from hostler_protocol.limits import MAX_TOOL_NAME_CHARS
from hostler_protocol.manifest import ToolList, ToolManifest

MAX_TOOLS = 256
"""Tools of one plugin."""
MAX_TOOLS_BYTES = 1024 * 1024
"""Manifests of one plugin's tools together: they are checked at each start, a MiB in some seconds."""
MAX_DESCRIPTION_CHARS = 8_000
"""A description is sent to models with every request."""

_NAME = re.compile(rf"[a-zA-Z_][a-zA-Z0-9_-]{{0,{MAX_TOOL_NAME_CHARS - 1}}}")


def read_tools(listed: ToolList) -> tuple[dict[str, ToolManifest], list[str]]:
    """Return the valid tool manifests by name, and warnings about the others."""
    tools: dict[str, ToolManifest] = {}
    warnings: list[str] = []
    if len(listed.tools) > MAX_TOOLS:
        warnings.append(f"{len(listed.tools)} tools are listed; the first {MAX_TOOLS} count")
    room = MAX_TOOLS_BYTES
    for index, raw in enumerate(listed.tools[:MAX_TOOLS], 1):
        room -= len(raw)
        if room < 0:
            warnings.append(f"tool {index} and later ones skipped: over {MAX_TOOLS_BYTES:,} bytes in all")
            break
        try:
            manifest = msgspec.json.decode(raw, type=ToolManifest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            warnings.append(f"tool {index} skipped: {error}")
            continue
        wrong = _wrong(manifest, tools)
        if wrong is None:
            tools[manifest.name] = manifest
        else:
            warnings.append(f"tool {index} skipped: {wrong}")
    return tools, warnings


def _wrong(manifest: ToolManifest, known: dict[str, ToolManifest]) -> str | None:
    if not _NAME.fullmatch(manifest.name):
        return (
            f"{manifest.name[:100]!r} is not a tool's name: "
            f"a letter or '_', then letters, digits, '_', '-', at most {MAX_TOOL_NAME_CHARS} in all"
        )
    if manifest.name in known:
        return f"the name {manifest.name!r} is used twice"
    if len(manifest.description) > MAX_DESCRIPTION_CHARS:
        return f"the description of {manifest.name!r} has over {MAX_DESCRIPTION_CHARS:,} characters"
    return _wrong_schema(manifest)


def _wrong_schema(manifest: ToolManifest) -> str | None:
    if manifest.parameters.get("type", "object") != "object":
        return f"the parameters of {manifest.name!r} must be an object"
    for what, schema in (("parameters", manifest.parameters), ("output_schema", manifest.output_schema)):
        if schema is None:
            continue
        try:
            ToolSchema(schema)
        except SchemaError as error:
            return f"the schema {what} of {manifest.name!r} cannot be used: {error}"
    return None
