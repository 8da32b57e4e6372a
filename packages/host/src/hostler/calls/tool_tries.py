"""Asking a tool: again where that is harmless, looked up where the tool can say what became of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from hostler.calls.tool_artifacts import CallArtifacts
from hostler.calls.tool_call import ToolCall
from hostler.domain.record import Record
from hostler.secrets.known_values import redact_error
from hostler.tools.errors import OutcomeUnknownError
from hostler.tools.port import Found, ToolInvocation, ToolService
from hostler_protocol.errors import HostlerError

MAX_TRIES = 3
"""How often a tool that may be asked again is asked, or looked up, before its outcome counts as unknown."""
FIRST_RETRY_SECONDS = 0.2


class ToolAnswer(Record):
    """What came of asking a tool: its result, an error, or `doubt`: why nobody knows.

    `call`: with the artifacts of the request that was answered.
    """

    call: ToolCall
    result: Any = None
    error: HostlerError | None = None
    doubt: str | None = None


class ToolTries(Record):
    """Asks tools of one attempt. `service` raises NotFoundError for a tool that is gone."""

    service: Callable[[ToolCall], ToolService]
    invocation: Callable[[ToolCall], ToolInvocation]
    artifacts: Callable[[ToolCall], CallArtifacts]

    async def ask(self, call: ToolCall) -> ToolAnswer:
        """Ask the tool; again, looked up or in doubt where no answer comes."""
        pause = FIRST_RETRY_SECONDS
        for last in (n == MAX_TRIES for n in range(1, MAX_TRIES + 1)):
            call = replace(call, artifacts=self.artifacts(call))
            try:
                result = await self.service(call).call(self.invocation(call))
            except OutcomeUnknownError as error:
                unknown = redact_error(error)
            except HostlerError as error:
                return ToolAnswer(call, error=redact_error(error))
            else:
                return ToolAnswer(call, result)
            if call.pin.effect == "reconcilable":
                found = await self.look_up(call)
                if isinstance(found, Found):
                    return ToolAnswer(call, found.result)
                if isinstance(found, HostlerError):
                    break
            elif not call.may_be_repeated:
                break
            if not last:
                await asyncio.sleep(pause)
                pause *= 2
        if call.may_be_repeated:
            return ToolAnswer(call, error=unknown)
        return ToolAnswer(call, doubt=unknown.message)

    async def look_up(self, call: ToolCall) -> Found | HostlerError | None:
        """Return the tool's record of the call, None if it has none, or the error if the look-up failed."""
        pause = FIRST_RETRY_SECONDS
        for last in (n == MAX_TRIES for n in range(1, MAX_TRIES + 1)):
            try:
                return await self.service(call).lookup(self.invocation(call))
            except HostlerError as error:
                if last:
                    return error
            await asyncio.sleep(pause)
            pause *= 2
        return None
