"""The OpenAPI 3.1 document, generated from the route table and the structs."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from hostler.http.endpoint import ANY_KEY, Endpoint, Media
from hostler.http.problems import PROBLEM_TYPE, Problem
from hostler.http.sessions import COOKIE, cookie_name

REFERENCE = "#/components/schemas/{name}"
_PROBLEMS_EVERYWHERE = (400, 429, 500, 503)
_PROBLEMS_WITH_KEY = (401, 403)


def _say_items(schema: Any) -> None:
    """Say of lists of anything that their items are anything: generators of clients expect it to be said."""
    if isinstance(schema, dict):
        if schema.get("type") == "array" and not {"items", "prefixItems"} & schema.keys():
            schema["items"] = {}
        schema = schema.values()
    elif not isinstance(schema, (list, tuple)):
        return
    for part in schema:
        _say_items(part)


def document(endpoints: list[Endpoint], version: str) -> dict[str, Any]:
    """Return the document as plain JSON values, without routes of dialects that their makers document."""
    endpoints = [endpoint for endpoint in endpoints if _problem(endpoint) is not None]
    schemas, components = msgspec.json.schema_components(_types(endpoints), ref_template=REFERENCE)
    _say_items(components)
    schema_of = dict(zip(map(repr, _types(endpoints)), schemas, strict=True))
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, schema_of, components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    queries = {_name(endpoint.query) for endpoint in endpoints if endpoint.query is not None}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hostler",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": (
                "The host for AI agents. Every call needs a bearer key unless stated otherwise. "
                "Errors are problem documents (RFC 9457) whose `code` is one of a closed set. "
                "Lists are pages: send `next_cursor` back as `cursor`. "
                "A POST may carry `Idempotency-Key`: repeated, it gets the first response."
            ),
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"session": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(endpoint.tag for endpoint in endpoints)],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": cookie_name(COOKIE, secure=True),
                    "description": "Set by a sign-in. Writes also need `Origin` and `X-CSRF-Token`.",
                },
            },
            "schemas": {name: schema for name, schema in sorted(components.items()) if name not in queries},
        },
    }


def _problem(endpoint: Endpoint) -> type[Problem] | None:
    """Return what errors of a route are; None if its dialect's makers document it."""
    return Problem if endpoint.dialect is None else endpoint.dialect.problem


def _types(endpoints: list[Endpoint]) -> list[Any]:
    found: list[Any] = []
    for endpoint in endpoints:
        found.append(_problem(endpoint))
        found += [endpoint.query] if endpoint.query is not None else []
        found += [endpoint.body] if endpoint.reads_body else []
        for answer in endpoint.answers.values():
            for kind in _choices(answer):
                found += kind.holds if isinstance(kind, Media) else [kind]
    return list({repr(kind): kind for kind in found}.values())


def _operation(endpoint: Endpoint, schema_of: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "parameters": _parameters(endpoint, components),
        "responses": _responses(endpoint, schema_of),
    }
    description = endpoint.description
    if endpoint.signed_in:
        operation["security"] = [{"session": []}]
        description = f"{description}\n\nFor people who have signed in.".strip()
    elif endpoint.right is None:
        operation["security"] = []
    elif endpoint.right == ANY_KEY:
        operation["security"] = [{"key": []}]
    else:
        description = f"{description}\n\nNeeds the right `{endpoint.right}`.".strip()
    if endpoint.narrow is not None:
        description = f"{description}\n\nTakes front-end tokens, within their agent and conversation.".strip()
    if description:
        operation["description"] = description
    if endpoint.reads_body:
        content = {"application/json": {"schema": schema_of[repr(endpoint.body)]}}
        operation["requestBody"] = {"required": not endpoint.body_optional, "content": content}
    elif endpoint.media is not None:
        operation["requestBody"] = {
            "required": True,
            "description": endpoint.media.description,
            "content": {endpoint.media.type: {"schema": endpoint.media.schema}},
        }
    return operation


def _parameters(endpoint: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in endpoint.parameters
    ]
    if endpoint.query is not None:
        schema = components[_name(endpoint.query)]
        required = schema.get("required", [])
        found += [
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "schema": _query_schema(value),
                **({"style": "form", "explode": True} if value.get("type") == "array" else {}),
            }
            for name, value in schema["properties"].items()
        ]
    if endpoint.narrow is not None and endpoint.streams:
        about = "A front-end token, for an EventSource, which can send no header. Keys are not taken here."
        name = {"name": "access_token", "in": "query", "required": False, "description": about}
        found.append({**name, "schema": {"type": "string"}})
    if endpoint.method == "POST" and not endpoint.signed_in:
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
            }
        )
    return found


def _query_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from a schema: a query cannot express it, an optional parameter is left out instead."""
    kept = {key: value for key, value in schema.items() if not (key == "default" and value is None)}
    choices = [choice for choice in kept.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        del kept["anyOf"]
        kept = {**choices[0], **kept}
    return kept


def _responses(endpoint: Endpoint, schema_of: dict[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, answer in sorted(endpoint.answers.items()):
        response: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        content: dict[str, Any] = {}
        for kind in _choices(answer):
            if isinstance(kind, Media):
                response["description"] = kind.description
                content[kind.type] = {"schema": kind.schema}
            else:
                shapes = content.setdefault("application/json", {"schema": {"anyOf": []}})
                shapes["schema"]["anyOf"].append(schema_of[repr(kind)])
        if content:
            response["content"] = content
        responses[str(status)] = response
    problem = {"content": {PROBLEM_TYPE: {"schema": schema_of[repr(_problem(endpoint))]}}}
    keyed = _PROBLEMS_WITH_KEY if endpoint.right is not None or endpoint.signed_in else ()
    for status in (*_PROBLEMS_EVERYWHERE, *keyed):
        responses.setdefault(str(status), {"description": HTTPStatus(status).phrase, **problem})
    responses["default"] = {"description": "Any other problem", **problem}
    return responses


def _choices(answer: Any) -> tuple[Any, ...]:
    """Return the kinds of body of one status."""
    if answer is None:
        return ()
    return answer if isinstance(answer, tuple) else (answer,)


def _name(kind: Any) -> str:
    """Return the name of a struct among the components, as msgspec makes it."""
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return str(schema["$ref"]).rpartition("/")[2]
