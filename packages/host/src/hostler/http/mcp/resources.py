"""Resources: conversations, runs and artifacts of the workspace; and the arguments of their addresses."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from hostler.http.auth import has_right, require_right
from hostler.http.mcp.messages import INVALID_PARAMS, RpcError, RpcMessage
from hostler.http.mcp.prompts import check_argument
from hostler.http.mcp.uris import SCHEME, ResourceUri, artifact_uri, read_uri, uri_of
from hostler.http.narrow import find_run
from hostler.http.request import ApiRequest
from hostler.runs.records import record
from hostler.storage.stores import artifacts, conversations, runs, transcripts
from hostler.storage.stores.conversations import ConversationSummary
from hostler.storage.stores.transcripts import StoredItem
from hostler_protocol.errors import NotFoundError, PayloadTooLargeError
from hostler_protocol.limits import MIB

NOT_FOUND = -32002
"""The code of sessions for a resource that is not there; the stateless revision has INVALID_PARAMS."""
MAX_ON_PAGE = 50
MAX_MESSAGES = 100
"""Messages of a conversation that are read: the newest."""
MAX_ARTIFACT_BYTES = 4 * MIB
"""An artifact that is read as a resource, in base64; more is to be had by ranges over HTTP."""
MAX_COMPLETIONS = 100
"""The protocol's limit."""
JSON = "application/json"
TEMPLATES: list[dict[str, Any]] = [
    {
        "uriTemplate": f"{SCHEME}conversations/{{conversation_id}}",
        "name": "conversation",
        "description": f"A conversation: its newest {MAX_MESSAGES} messages, oldest first.",
        "mimeType": JSON,
    },
    {
        "uriTemplate": f"{SCHEME}runs/{{run_id}}",
        "name": "run",
        "description": "A run: its status, usage and output.",
        "mimeType": JSON,
    },
    {
        "uriTemplate": f"{SCHEME}artifacts/{{artifact_id}}",
        "name": "artifact",
        "description": "A file that an agent made or was given.",
    },
]
_encoder = msgspec.json.Encoder(enc_hook=str)


async def list_resources(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Return a page of conversations, latest first. Runs and artifacts are found by their templates."""
    require_right(request.caller, "conversations:read")
    host, workspace = request.state.host, request.workspace_id
    cursors = host.cursors.scoped("mcp resources", [workspace])
    cursor = message.params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise RpcError(INVALID_PARAMS, "cursor: expected the nextCursor of a page of resources/list")
    before = None if cursor is None else cursors.read_sequence(cursor)
    page = await host.db.read(lambda tx: conversations.page(tx, workspace, before=before, limit=MAX_ON_PAGE))
    more = {} if page.before is None else {"nextCursor": cursors.issue(page.before)}
    return {"resources": [_resource(item) for item in page.items], **more}


def _resource(item: ConversationSummary) -> dict[str, Any]:
    return {
        "uri": uri_of("conversations", item.conversation_id),
        "name": item.conversation_id,
        "description": f"A conversation; {item.role} spoke last.",
        "mimeType": JSON,
    }


async def list_templates(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Return the addresses that can be read."""
    return {"resourceTemplates": TEMPLATES}


async def read_resource(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Return what an address names. RpcError if that is not there."""
    text = message.params.get("uri")
    named = read_uri(text) if isinstance(text, str) else None
    try:
        if named is None:
            raise NotFoundError("expected an address of resources/templates/list")
        contents = await _read(request, named)
    except NotFoundError as error:
        code = INVALID_PARAMS if message.stateless else NOT_FOUND
        raise RpcError(code, f"uri: {error.message}", {"uri": text}) from None
    return {"contents": [{"uri": text, **contents}]}


async def _read(request: ApiRequest, named: ResourceUri) -> dict[str, Any]:
    match named.kind:
        case "artifacts":
            return await _artifact(request, named.name)
        case "conversations":
            return await _conversation(request, named.name)
        case "runs":
            return await _run(request, named.name)


async def _artifact(request: ApiRequest, artifact_id: str) -> dict[str, Any]:
    require_right(request.caller, "artifacts:read")
    host = request.state.host
    found = await host.db.read(lambda tx: artifacts.find(tx, request.workspace_id, artifact_id))
    if found is None:
        raise NotFoundError(f"there is no artifact {artifact_id!r}")
    if found.size_bytes > MAX_ARTIFACT_BYTES:
        raise PayloadTooLargeError(
            f"the artifact has {found.size_bytes:,} bytes; at most {MAX_ARTIFACT_BYTES:,} are read here: "
            f"GET /v1/artifacts/{artifact_id}/content has all of it",
            limit=MAX_ARTIFACT_BYTES,
        )
    data = b"".join([chunk async for chunk in artifacts.stream(found, host.blobs, 0, found.size_bytes)])
    kind = found.mime_type or "application/octet-stream"
    if kind.startswith("text/") or kind.partition(";")[0] == JSON:
        try:
            return {"mimeType": kind, "text": data.decode()}
        except UnicodeDecodeError:
            pass  # it is in another encoding: its bytes are given
    return {"mimeType": kind, "blob": base64.b64encode(data).decode()}


async def _conversation(request: ApiRequest, conversation_id: str) -> dict[str, Any]:
    require_right(request.caller, "conversations:read")
    page = await request.state.host.db.read(
        lambda tx: transcripts.page(
            tx,
            request.workspace_id,
            conversation_id=conversation_id,
            limit=MAX_MESSAGES,
            direction="backward",
        )
    )
    if not page.items:
        raise NotFoundError(f"there is no conversation {conversation_id!r}")
    messages = [_message(item) for item in reversed(page.items)]
    body = {"conversation_id": conversation_id, "messages": messages, "has_more": page.has_more}
    return {"mimeType": JSON, "text": _encoder.encode(body).decode()}


def _message(item: StoredItem) -> dict[str, Any]:
    message: dict[str, Any] = {"role": item.role, "text": item.content, "at": item.created_at / 1000}
    if item.run_id is not None:
        message["run_id"] = item.run_id
    if item.artifact_refs:
        message["files"] = [artifact_uri(ref.artifact_id) for ref in item.artifact_refs]
    return message


async def _run(request: ApiRequest, run_id: str) -> dict[str, Any]:
    require_right(request.caller, "runs:read")
    await find_run(request, run_id)
    found = await request.state.host.db.read(lambda tx: record(tx, request.workspace_id, run_id))
    return {"mimeType": JSON, "text": _encoder.encode(found).decode()}


# -- completion -----------------------------------------------------------------------------------------


async def complete(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Return ids of conversations and runs that begin as an argument of an address does.

    Arguments of prompts take any text, so there is nothing to offer for them. RpcError if there is no such
    argument.
    """
    given = message.params.get("argument")
    name = given.get("name") if isinstance(given, dict) else None
    value = given.get("value") if isinstance(given, dict) else None
    if not isinstance(name, str) or not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, "argument: expected a name and a value, as texts")
    ref = message.params.get("ref")
    if isinstance(ref, dict) and ref.get("type") == "ref/prompt":
        await check_argument(request, ref.get("name"), name)
        return {"completion": {"values": [], "total": 0, "hasMore": False}}
    found = [one for one in await _ids(request, name) if one.startswith(value)]
    shown = found[:MAX_COMPLETIONS]
    return {"completion": {"values": shown, "total": len(found), "hasMore": len(found) > len(shown)}}


async def _ids(request: ApiRequest, name: str) -> list[str]:
    """Return the latest ids of a kind; none of kinds that the key may not read."""
    db, workspace = request.state.host.db, request.workspace_id
    if name == "conversation_id" and has_right(request.caller, "conversations:read"):
        page = await db.read(lambda tx: conversations.page(tx, workspace, before=None, limit=MAX_COMPLETIONS))
        return [item.conversation_id for item in page.items]
    if name == "run_id" and has_right(request.caller, "runs:read"):
        return [
            run.run_id for run in await db.read(lambda tx: runs.page(tx, workspace, limit=MAX_COMPLETIONS))
        ]
    return []
