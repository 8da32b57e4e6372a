"""OpenAPI documents of a few lines, and what is read of them."""

from __future__ import annotations

import json
from typing import Any

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.tools.openapi.document import read_document
from hostler.tools.openapi.operations import Operations, operations_of

OK: dict[str, Any] = {"responses": {"200": {"description": "fine"}}}
ENTRY = OpenApiEntry(name="x", document="x.json", base_url="https://api.example/v1")


def document(paths: Any, version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    return {"openapi": version, "info": {"title": "t", "version": "1"}, "paths": paths, **more}


def read(root: Any, entry: OpenApiEntry = ENTRY, found_at: str | None = None) -> Operations:
    data = root if isinstance(root, bytes) else json.dumps(root).encode()
    return operations_of(read_document(data), entry, found_at=found_at)


def body(schema: Any, **more: Any) -> dict[str, Any]:
    return {"post": {**OK, "requestBody": {"content": {"application/json": {"schema": schema}}}, **more}}


def only(found: Operations) -> Any:
    assert dict(found.problems) == {}
    [operation] = found.usable.values()
    return operation


def schema_of(schema: Any, version: str = "3.1.0", **schemas: Any) -> dict[str, Any]:
    """What becomes of a schema as the body of the only operation."""
    root = document({"/": body(schema)}, version, components={"schemas": schemas})
    return dict(only(read(root)).schema)
