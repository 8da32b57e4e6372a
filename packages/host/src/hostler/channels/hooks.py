"""Hooks: verify what other services send, make an event of it, and store that before they are answered."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from hostler.channels.named_agents import has_agent
from hostler.channels.request_refusals import WINDOW_SECONDS, Refused, RequestRefusals
from hostler.domain.clock import monotonic_clock, wall_clock
from hostler.domain.config_changes import ConfigProblem
from hostler.domain.events import Caller
from hostler.domain.filters import ValueOutcome
from hostler.domain.hook_answers import (
    HookAnswer,
    HookOutcome,
    HookReply,
    answer_to,
    asked_challenge,
    posted_challenge,
)
from hostler.domain.hook_mapping import Mapped, Said, mapped, said_by
from hostler.domain.hook_signatures import HookRefusedError, HookRequest, HookSecretError, Signed, verify
from hostler.domain.hooks import MAX_HOOKS, Hook, hook_warnings
from hostler.domain.token_bucket import TokenBucket, TokenBuckets
from hostler.runs.orchestrator import Accepted
from hostler.secrets.resolver import SecretUnreadableError
from hostler.secrets.stored import StoredSecrets
from hostler.storage.port import Database, Tx
from hostler.storage.stores import events, hook_deliveries
from hostler.storage.stores.hook_deliveries import Message, Noted
from hostler_protocol.errors import (
    ConflictError,
    NotFoundError,
    RateLimitedError,
    StorageError,
    UnauthorizedError,
    UnavailableError,
)
from hostler_protocol.events import EventEnvelope

log = logging.getLogger(__name__)

WRONG_PER_SECOND = 1.0
WRONG_BURST = 60.0
"""Wrong requests of one address; further ones are refused as too many. A right one never is, for that."""
MAX_ADDRESSES = 10_000
BURST_SECONDS = 5.0
"""A hook takes as many requests at once as its rate allows in this time: senders deliver in bursts."""
FLUSH_SECONDS = 5.0
_RATE = "rate"

Accept = Callable[[EventEnvelope, Caller], Awaitable[Accepted]]


class Expressions(Protocol):
    """Evaluates expressions off the loop, bounded in time: `FilterProcesses`."""

    async def values(
        self, names: Mapping[str, object], expressions: Sequence[str]
    ) -> dict[str, ValueOutcome]:
        """Return the values of expressions over these names. UnavailableError if too many wait."""
        ...


@dataclass(slots=True)
class _Serving:
    """An entry that is served, and its rate."""

    hook: Hook
    bucket: TokenBucket


class Hooks:
    """The hooks of an installation. `accept` stores an event and opens its run."""

    def __init__(
        self,
        db: Database,
        workspace_id: str,
        accept: Accept,
        expressions: Expressions,
        *,
        secrets: StoredSecrets | None = None,
        now: Callable[[], float] = wall_clock,
        clock: Callable[[], float] = monotonic_clock,
    ) -> None:
        self._db = db
        self._workspace = workspace_id
        self._accept = accept
        self._expressions = expressions
        self._known = secrets or StoredSecrets()
        self._now = now
        self._clock = clock
        self._served: dict[str, _Serving] = {}
        self._refusals = RequestRefusals(db, clock)
        self._wrong = TokenBuckets(WRONG_PER_SECOND, WRONG_BURST, clock=clock, max_buckets=MAX_ADDRESSES)
        self.counts: Counter[tuple[str, str]] = Counter()
        """Requests by hook and outcome since the start: `accepted`, `duplicate`, `conflict`, `challenge`, the
        reason of a refusal, `rate` and `failed`."""

    # -- configuration ----------------------------------------------------------------------------

    def configure(self, entries: Sequence[Hook]) -> None:
        """Serve these hooks from now on. One that verifies nothing is logged."""
        before, self._served = self._served, {}
        for hook in entries[:MAX_HOOKS]:
            known = before.get(hook.name)
            if known is not None and known.hook == hook:
                self._served[hook.name] = known
                continue
            rate = hook.requests_per_second
            self._served[hook.name] = _Serving(hook, TokenBucket(rate, rate * BURST_SECONDS, self._clock()))
            for warning in hook_warnings(hook):
                log.warning("hook %s: %s", hook.name, warning.text)
        for key in [key for key in self.counts if key[0] not in self._served]:
            del self.counts[key]

    @property
    def entries(self) -> list[Hook]:
        """The hooks that are served, by name."""
        return sorted((serving.hook for serving in self._served.values()), key=lambda hook: hook.name)

    def get(self, name: str) -> Hook:
        """Return a hook. NotFoundError."""
        serving = self._served.get(name)
        if serving is None:
            raise NotFoundError("there is no such hook")
        return serving.hook

    def workspace_of(self, hook: Hook) -> str:
        """Return the workspace of a hook's events."""
        return hook.workspace or self._workspace

    async def problems(
        self, entries: Sequence[Hook] | None = None, planned: Collection[str] | None = None
    ) -> list[ConfigProblem]:
        """Return what is wrong with hooks now: secrets that cannot be read, agents that are not there, and
        what is not verified.

        `entries`: other hooks than those that are served. `planned`: the agents that the installation's own
        workspace will have.
        """
        found: list[ConfigProblem] = []
        for hook in self.entries if entries is None else entries:
            ws = self.workspace_of(hook)
            if hook.agent is not None and not await has_agent(
                self._db, ws, hook.agent, planned if ws == self._workspace else None
            ):
                text = f"there is no agent {hook.agent!r} in the workspace {ws!r}: its senders are refused"
                found.append(ConfigProblem(kind="hook", name=hook.name, problem=text, place="agent"))
            found += [
                ConfigProblem(
                    kind="hook", name=hook.name, problem=one.text, place=one.place, severity=one.severity
                )
                for one in hook_warnings(hook)
            ]
            found += [
                ConfigProblem(kind="hook", name=hook.name, problem=problem, place=place)
                for place, problem in await asyncio.to_thread(list, self._wrong_secrets(hook))
            ]
        return found

    # -- requests ---------------------------------------------------------------------------------

    async def receive(self, name: str, request: HookRequest, address: str) -> HookAnswer:
        """Take a request, and return the response once its event is stored.

        HookRefusedError (audited) if it is not of the hook's sender; NotFoundError; RateLimitedError;
        InvalidArgumentError for a body that cannot be read; UnavailableError if it should be sent again.
        """
        serving = self._served.get(name)
        if serving is None:
            raise NotFoundError("there is no such hook")
        hook = serving.hook
        try:
            signed = await self._verified(hook, request, address)
            if wait := serving.bucket.take(self._clock()):
                self.counts[name, _RATE] += 1
                raise RateLimitedError(
                    f"this hook takes {hook.requests_per_second:g} requests per second", round(wait, 3)
                )
            said = said_by(hook, request)
            if (answer := posted_challenge(hook, said)) is not None:
                self.counts[name, "challenge"] += 1
                return answer
            found = await self.mapped(hook, said)
            return answer_to(hook, await self._taken(hook, said, signed, found, address))
        except (HookRefusedError, RateLimitedError, NotFoundError):
            raise
        except Exception:
            self.counts[name, "failed"] += 1
            raise

    async def challenge(self, name: str, query: str, address: str) -> HookAnswer:
        """Answer a service that asks by GET whether it may send. NotFoundError if the hook takes no such."""
        hook = self.get(name)
        if hook.challenge_token is None:
            raise NotFoundError("there is no such hook")
        try:
            token = await asyncio.to_thread(self._secret, hook, hook.challenge_token)
            answer = asked_challenge(query, token)
        except HookRefusedError as error:
            await self._refuse(hook, error, address)
            raise
        except (HookSecretError, SecretUnreadableError) as error:
            raise self._unusable(hook, error) from None
        self.counts[name, "challenge"] += 1
        return answer

    async def mapped(self, hook: Hook, said: Said) -> Mapped:
        """Return the event of a request. UnavailableError if its expressions cannot be evaluated now."""
        wanted = hook.map.expressions()
        values: dict[str, ValueOutcome] = {}
        if wanted:
            found = await self._expressions.values(said.names, list(wanted.values()))
            values = {field: found[text] for field, text in wanted.items()}
        for field, outcome in values.items():
            if outcome.unknown:
                raise UnavailableError(f"map.{field} could not be evaluated: {outcome.error}; send it again")
        return mapped(hook, said, values, self.workspace_of(hook))

    async def _verified(self, hook: Hook, request: HookRequest, address: str) -> Signed:
        try:
            secrets = await asyncio.to_thread(self._secrets, hook)
            return verify(hook, request, secrets, self._now())
        except HookRefusedError as error:
            await self._refuse(hook, error, address)
            raise
        except (HookSecretError, SecretUnreadableError) as error:
            raise self._unusable(hook, error) from None

    async def _taken(self, hook: Hook, said: Said, signed: Signed, found: Mapped, address: str) -> HookReply:
        """Store the event of a request, unless the request or its message was taken before."""
        envelope = found.envelope
        noted = await self._noted(hook, said, signed, found)
        if noted.outcome == "replayed":
            error = HookRefusedError("replayed", "this was taken before, under another id")
            await self._refuse(hook, error, address)
            raise error
        outcome: HookOutcome = "conflict"
        if noted.outcome == "conflicting":
            await self._refusals.note(
                Refused(self.workspace_of(hook), hook.name, "hook.conflict", "another body"), address
            )
        else:
            if noted.event_id != envelope.event_id:  # sent again; the first try may have stored no event
                envelope = msgspec.structs.replace(envelope, event_id=noted.event_id)
            outcome = await self._stored(hook, envelope, repeated=noted.outcome == "repeated")
        self.counts[hook.name, outcome] += 1
        return HookReply(event_id=noted.event_id, outcome=outcome)

    async def _noted(self, hook: Hook, said: Said, signed: Signed, found: Mapped) -> Noted:
        ws, event_id = self.workspace_of(hook), found.envelope.event_id or ""
        content = None if signed.content is None else hashlib.sha256(signed.content).hexdigest()
        message = Message(hook.name, event_id, said.digest, content, found.named)
        return await self._db.write(lambda tx: hook_deliveries.note(tx, ws, message))

    async def _stored(self, hook: Hook, envelope: EventEnvelope, *, repeated: bool) -> HookOutcome:
        ws = self.workspace_of(hook)
        caller = Caller(
            workspace_id=ws,
            subject=f"hook:{hook.name}",
            key_id=f"hook:{hook.name}",
            rights=frozenset({"events:write"}),
        )
        try:
            accepted = await self._accept(envelope, caller)
        except (ConflictError, NotFoundError) as error:
            event_id = envelope.event_id or ""
            if await self._db.read(lambda tx: _is_stored(tx, ws, event_id)):
                # its mapping has changed since it was sent first, or two agents would take it
                return "duplicate" if repeated else "conflict"
            log.warning("hook %s: %s", hook.name, error.message)
            raise UnavailableError("the agent of this hook takes nothing now; send it again later") from None
        return "duplicate" if accepted.duplicate else "accepted"

    # -- refusals and secrets ---------------------------------------------------------------------

    async def _refuse(self, hook: Hook, error: HookRefusedError, address: str) -> None:
        """Count and audit a refusal. RateLimitedError if the address sent too many wrong requests."""
        self.counts[hook.name, error.refusal] += 1
        wait = self._wrong.take(address)
        await self._refusals.note(
            Refused(self.workspace_of(hook), hook.name, "hook.refused", error.refusal), address
        )
        if wait:
            raise RateLimitedError("too many wrong requests from this address", round(wait, 3)) from error

    def _secrets(self, hook: Hook) -> list[str]:
        """Return the secrets that can be read. Blocks. SecretUnreadableError if none can."""
        found: list[str] = []
        unreadable: SecretUnreadableError | None = None
        for reference in hook.secrets:
            try:
                found.append(self._secret(hook, reference))
            except SecretUnreadableError as error:
                unreadable = error
        if not found and unreadable is not None:
            raise unreadable
        return found

    def _secret(self, hook: Hook, reference: str) -> str:
        return self._known.resolve(reference, f"hook {hook.name}") or ""

    def _wrong_secrets(self, hook: Hook) -> Iterator[tuple[str, str]]:
        """Yield the place of each secret that cannot be used now, and why. It is no use of it. Blocks."""
        for number, reference in enumerate(hook.secrets):
            if (problem := self._problem(hook, reference)) is not None:
                yield f"secrets[{number}]", problem
        if hook.challenge_token is not None:
            try:
                token = self._known.read(hook.challenge_token)
            except SecretUnreadableError as error:
                yield "challenge_token", error.message
            else:
                if not token:
                    yield "challenge_token", "it is empty"

    def _problem(self, hook: Hook, reference: str) -> str | None:
        try:
            verify(hook, HookRequest("", {}, "", b""), [self._known.read(reference) or ""], self._now())
        except (HookSecretError, SecretUnreadableError) as error:
            return _said(error)
        except UnauthorizedError:
            pass  # as it should: nothing was signed
        return None

    def _unusable(self, hook: Hook, error: Exception) -> UnavailableError:
        self.counts[hook.name, "failed"] += 1
        log.warning("hook %s: %s", hook.name, _said(error))
        return UnavailableError("this hook cannot verify anything now; send it again later")

    # -- background work --------------------------------------------------------------------------

    async def work(self, succeeded: Callable[[], None]) -> None:
        """Write the counted refusals into the audit log. A worker."""
        while True:
            await asyncio.sleep(min(FLUSH_SECONDS, WINDOW_SECONDS))
            try:
                await self._refusals.flush()
            except StorageError as error:
                log.warning("refusals of hooks cannot be audited now: %s", error.message)
                continue
            succeeded()

    async def close(self) -> None:
        """Write what was counted and not written yet."""
        await self._refusals.flush(all_of_them=True)


def _is_stored(tx: Tx, workspace_id: str, event_id: str) -> bool:
    return events.find(tx, workspace_id, event_id) is not None


def _said(error: Exception) -> str:
    return error.message if isinstance(error, SecretUnreadableError) else str(error)
