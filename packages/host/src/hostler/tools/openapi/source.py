"""The operations of all configured OpenAPI documents, as one `ToolSource`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.openapi_entry import OpenApiEntry, check_openapi_entry
from hostler.domain.record import Record
from hostler.domain.tool_entries import ToolEntry
from hostler.domain.tool_pins import ToolPin
from hostler.egress import Egress, EgressPolicy, Network
from hostler.secrets.known_values import redact
from hostler.secrets.stored import Resolve, StoredSecrets
from hostler.tools.errors import ToolChangedError
from hostler.tools.openapi.bodies import SentFile, wanted_files
from hostler.tools.openapi.client import ServiceClient
from hostler.tools.openapi.document import DocumentError
from hostler.tools.openapi.limits import MAX_SENT_BYTES
from hostler.tools.openapi.loader import Loaded, load
from hostler.tools.openapi.operations import Operation
from hostler.tools.openapi.requests import request_of
from hostler.tools.openapi.security import Credentials, credentials_of
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError, UnavailableError
from hostler_protocol.grants import ToolResource
from hostler_protocol.ids import digest

log = logging.getLogger(__name__)


class OpenApiStatus(Record):
    """Status of a document. `problem`: why it has no tools; `left_out`: name -> why it cannot be a tool."""

    name: str
    document: str
    tools: int = 0
    digest: str | None = None
    problem: str | None = None
    left_out: Mapping[str, str] = msgspec.field(default_factory=dict)


class _Service(Record):
    """A loaded document, and the client of its service."""

    entry: OpenApiEntry
    egress: Egress
    client: ServiceClient
    loaded: Loaded | None = None
    problem: str | None = None

    def operation(self, name: str) -> Operation | None:
        return None if self.loaded is None else self.loaded.operations.usable.get(name)


class OpenApiTools:
    """The `ToolSource` and `ToolKind` of OpenAPI documents, offered in the host's own workspace.

    Documents are read when they are configured; those from addresses are kept in the folder `cache`.
    `network` and `sleep` are replaced in tests.
    """

    id_prefix = "openapi:"

    def __init__(
        self,
        workspace_id: str,
        cache: Path,
        *,
        network: Network | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        resolve: Resolve | None = None,
    ) -> None:
        self._workspace = workspace_id
        self._cache = cache
        self._network = network
        self._sleep = sleep
        self._resolve = resolve or StoredSecrets().resolve
        self._services: dict[str, _Service] = {}
        self._offered: dict[str, OfferedTool] = {}
        self.revision = 0

    # -- configuration ----------------------------------------------------------------------------

    def check(self, entries: Sequence[ToolEntry]) -> None:
        """Check the entries, without their documents. InvalidArgumentError."""
        for entry in _own(entries):
            check_openapi_entry(entry)
            try:
                EgressPolicy.of(entry.network)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(
                    f"tools: openapi {entry.name!r}: network: {error.message}", field="network"
                ) from None

    async def configure(self, entries: Sequence[ToolEntry]) -> None:
        """Read these documents and offer exactly their tools."""
        wanted = {entry.name: entry for entry in _own(entries)}
        kept = {n: s for n, s in self._services.items() if s.entry == wanted.get(n) and s.problem is None}
        fresh = await asyncio.gather(*(self._open(e) for name, e in wanted.items() if name not in kept))
        removed = [service for name, service in self._services.items() if kept.get(name) is not service]
        self._services = kept | {service.entry.name: service for service in fresh}
        self._offered = {
            tool.pin.tool_id: tool for service in self._services.values() for tool in _tools(service)
        }
        self.revision += 1
        await asyncio.gather(*(service.egress.close() for service in removed))

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(service.egress.close() for service in self._services.values()))

    async def _open(self, entry: OpenApiEntry) -> _Service:
        egress = Egress(EgressPolicy.of(entry.network, any_port=True), network=self._network)
        client = ServiceClient(entry.owner, egress, entry.seconds, entry.response_bytes, self._sleep)
        try:
            loaded = await load(entry, self._cache, self._network)
        except DocumentError as error:
            log.error("openapi %s gives no tools: %s", entry.name, error)
            return _Service(entry, egress, client, problem=redact(str(error)))
        for name, why in loaded.operations.problems.items():
            log.info("openapi %s: %s is no tool: %s", entry.name, name, why)
        return _Service(entry, egress, client, loaded)

    # -- offered tools ----------------------------------------------------------------------------

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Return every operation that is a tool, by id."""
        return self._offered

    def documents(self, workspace_id: str) -> list[OpenApiStatus]:
        """Return the status of each document, sorted by name."""
        if workspace_id != self._workspace:
            return []
        return [_status(self._services[name]) for name in sorted(self._services)]

    # -- calls ------------------------------------------------------------------------------------

    async def call(self, invocation: ToolInvocation) -> Any:
        """Call the operation. See `ToolSource.call`."""
        tool = self.offered(invocation.workspace_id).get(invocation.pin.tool_id)
        if tool is None or tool.problem is not None or tool.pin != invocation.pin:
            raise ToolChangedError(
                f"tool {invocation.tool_name!r} is no longer the one that this run was given"
            )
        owner, _, name = invocation.pin.tool_id.partition("#")
        service = self._services[owner.removeprefix(self.id_prefix)]
        operation = service.operation(name)
        assert operation is not None
        credentials = await self._credentials(invocation.tool_name, operation, f"tool {owner}")
        files = await _files(invocation, operation)
        request = request_of(operation, invocation.parameters, credentials, invocation.effect_key, files)
        return await service.client.call(invocation, request, credentials)

    async def _credentials(self, tool_name: str, operation: Operation, user: str) -> Credentials:
        """Resolve an operation's secrets. UnavailableError names a reference that cannot be resolved."""
        secrets: dict[str, str] = {}
        try:
            for scheme in operation.security:
                found = await asyncio.to_thread(self._resolve, scheme.reference, user)
                secrets[scheme.reference] = found or ""
            return credentials_of(operation.security, secrets)
        except InvalidArgumentError as error:
            raise UnavailableError(f"tool {tool_name!r} lacks a secret: {error.message}") from None

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """InvalidArgumentError: such a service cannot be asked for the outcome of a call."""
        raise InvalidArgumentError(f"tool {invocation.tool_name!r} can't tell what came of a call")


async def _files(invocation: ToolInvocation, operation: Operation) -> dict[str, SentFile]:
    """Read the artifacts that a call sends. After any error nothing was sent."""
    wanted = wanted_files(operation.body, invocation.parameters)
    if not wanted:
        return {}
    if invocation.artifacts is None:
        raise UnavailableError(f"{invocation.tool_name} is called without a way to artifacts")
    files: dict[str, SentFile] = {}
    room = MAX_SENT_BYTES
    for artifact_id in wanted:
        artifact = await invocation.artifacts.open(artifact_id)
        room -= artifact.size_bytes
        if room < 0:
            raise PayloadTooLargeError(
                f"the files of one call have at most {MAX_SENT_BYTES:,} bytes", limit_bytes=MAX_SENT_BYTES
            )
        content = b"".join([piece async for piece in artifact.content])
        files[artifact_id] = SentFile(content, artifact.name, artifact.mime_type)
    return files


def _own(entries: Sequence[ToolEntry]) -> list[OpenApiEntry]:
    return [entry.openapi for entry in entries if entry.openapi is not None]


def _tools(service: _Service) -> list[OfferedTool]:
    """Return the tools of a document; unusable operations and documents become tools with a problem."""
    entry = service.entry
    if service.loaded is None:
        why = f"the document of {entry.name} gives no tools: {service.problem}"
        return [_refuse(entry, entry.name, entry.owner, why)]
    found = service.loaded.operations
    refused = [
        _refuse(entry, f"{entry.name}.{name}", f"{entry.owner}#{name}", why)
        for name, why in found.problems.items()
    ]
    return [*(_offer(entry, operation) for operation in found.usable.values()), *refused]


def _refuse(entry: OpenApiEntry, name: str, tool_id: str, why: str) -> OfferedTool:
    return OfferedTool(
        resource=ToolResource(tool_name=name, tool_type="openapi", operations=["detail", "call"]),
        pin=ToolPin(tool_id=tool_id, owner=entry.owner, schema_digest=""),
        problem=why,
    )


def _offer(entry: OpenApiEntry, operation: Operation) -> OfferedTool:
    names = operation.names
    return OfferedTool(
        resource=ToolResource(
            tool_name=f"{entry.name}.{operation.name}",
            tool_type="openapi",
            description=operation.description,
            operations=["detail", "call"],
            approval=entry.approval_of(names),
        ),
        pin=ToolPin(
            tool_id=f"{entry.owner}#{operation.name}",
            owner=entry.owner,
            schema_digest=digest(
                {
                    "method": operation.method,
                    "server": operation.server,
                    "path": operation.path,
                    "description": operation.description,
                    "parameters": operation.schema,
                }
            ),
            effect=entry.effect_of(names, operation.method, has_key=operation.key_header is not None),
        ),
        parameters=operation.schema,
    )


def _status(service: _Service) -> OpenApiStatus:
    loaded = service.loaded
    return OpenApiStatus(
        name=service.entry.name,
        document=service.entry.document,
        tools=0 if loaded is None else len(loaded.operations.usable),
        digest=None if loaded is None else loaded.digest,
        problem=service.problem,
        left_out={} if loaded is None else loaded.operations.problems,
    )
