"""Widgets: visitors of web pages get a token for a conversation of their own, within bounds."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from hostler.calls.cursors import Cursors, ScopedCursors
from hostler.channels.named_agents import has_agent
from hostler.domain.clock import monotonic_clock, wall_clock
from hostler.domain.config_changes import ConfigProblem
from hostler.domain.events import Caller
from hostler.domain.record import Record
from hostler.domain.token_bucket import TokenBucket, TokenBuckets
from hostler.domain.widgets import (
    MAX_WIDGETS,
    TOKEN_MINUTES,
    Widget,
    check_message,
    has_ended,
    widget_of,
    widget_warnings,
)
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents, tokens
from hostler.storage.stores.tokens import Token
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, RateLimitedError, UnauthorizedError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MIB

log = logging.getLogger(__name__)

MAX_VISITORS = 10_000
"""Visitors and addresses whose rates are tracked; the least recently used one is dropped first."""
BURST_MINUTES = 0.5
"""A visitor sends as many messages at once as its rate allows in this time."""
RENEWALS_PER_MINUTE = 60.0
"""Of one address: each page asks once in TOKEN_MINUTES, and when it is loaded. A company may share one."""
VISITOR_RENEWALS_PER_MINUTE = 20.0
"""Of one visitor, who loads pages one after the other."""
TOTAL_RENEWALS_PER_MINUTE = 3_000.0
"""Of all visitors: each is a transaction."""
TOKENS_PER_VISITOR = 8
"""Valid tokens of one visitor, for as many pages at once. A further one ends the oldest. With the rates of
new visitors and of renewals it bounds how many tokens a widget has.
"""
ADDRESS_SHARE = 4
"""Visitors whose messages one address may send at their full rate: a company may share one. Half of what the
widget takes in total is the most, and an address over that takes nothing from others.
"""


class Entered(Record):
    """A visitor with a token. `visitor`: the id by which the page comes back; `known`: whether it has been
    here before.
    """

    token: Token
    text: str
    visitor: str
    known: bool


class _Serving:
    """An entry that is served, and its rates."""

    def __init__(self, widget: Widget, clock: Callable[[], float]) -> None:
        self.widget = widget
        self._clock = clock

        def each(per_minute: float) -> TokenBuckets:
            burst = max(1.0, per_minute * BURST_MINUTES)
            return TokenBuckets(per_minute / 60, burst, clock=clock, max_buckets=MAX_VISITORS)

        def in_total(per_minute: float) -> TokenBucket:
            return TokenBucket(per_minute / 60, per_minute * BURST_MINUTES, clock())

        self._visitors = each(widget.visitors_per_minute)
        self._renewals = each(RENEWALS_PER_MINUTE)
        self._visitor_renewals = each(VISITOR_RENEWALS_PER_MINUTE)
        self._all_renewals = in_total(TOTAL_RENEWALS_PER_MINUTE)
        self._messages = each(widget.messages_per_minute)
        of_address = min(widget.messages_per_minute * ADDRESS_SHARE, widget.total_messages_per_minute / 2)
        self._address_messages = each(of_address)
        self._all_visitors = in_total(widget.total_visitors_per_minute)
        self._all_messages = in_total(widget.total_messages_per_minute)

    def take_visit(self, address: str, conversation_id: str | None) -> None:
        """Count a visitor, who is in this conversation or a new one.

        RateLimitedError over a rate: what one address did takes nothing from others.
        """
        if conversation_id is not None:
            _check(self._renewals.take(address), "this address asks for tokens too often")
            _check(self._visitor_renewals.take(conversation_id), "this visitor asks for tokens too often")
            _check(self._all_renewals.take(self._clock()), "this widget has too many visitors")
            return
        _check(self._visitors.take(address), "this address has too many new visitors")
        _check(self._all_visitors.take(self._clock()), "this widget has too many new visitors")

    def take_message(self, conversation_id: str, address: str) -> None:
        """Count a message or file of a visitor. RateLimitedError over a rate: one address has a share."""
        _check(self._messages.take(conversation_id), "too many messages")
        _check(self._address_messages.take(address), "too many messages of this address")
        _check(self._all_messages.take(self._clock()), "this widget gets too many messages")


class Widgets:
    """The widgets of an installation, whose own workspace is `workspace_id`."""

    def __init__(
        self,
        db: Database,
        workspace_id: str,
        cursors: Cursors,
        *,
        now: Callable[[], float] = wall_clock,
        clock: Callable[[], float] = monotonic_clock,
    ) -> None:
        self._db = db
        self._workspace = workspace_id
        self._cursors = cursors
        self._now = now
        self._clock = clock
        self._served: dict[str, _Serving] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        """By widget and outcome since the start: `visitor`, `returned`, `message`, `rate`, `origin`."""

    def configure(self, entries: Sequence[Widget]) -> None:
        """Serve these widgets from now on. One that any page may show is logged."""
        before, self._served = self._served, {}
        for widget in entries[:MAX_WIDGETS]:
            known = before.get(widget.name)
            if known is not None and known.widget == widget:
                self._served[widget.name] = known
                continue
            self._served[widget.name] = _Serving(widget, self._clock)
            for warning in widget_warnings(widget):
                log.warning("widget %s: %s", widget.name, warning.text)
        for key in [key for key in self.counts if key[0] not in self._served]:
            del self.counts[key]

    @property
    def entries(self) -> list[Widget]:
        """The widgets that are served, by name."""
        return sorted((serving.widget for serving in self._served.values()), key=lambda one: one.name)

    def takes(self, origin: str) -> bool:
        """Whether pages of this origin may show any widget."""
        return any(serving.widget.takes(origin) for serving in self._served.values())

    def find(self, name: str) -> Widget | None:
        """Return a widget, or None."""
        serving = self._served.get(name)
        return None if serving is None else serving.widget

    def get(self, name: str) -> Widget:
        """Return a widget. NotFoundError."""
        return self._serving(name).widget

    def workspace_of(self, widget: Widget) -> str:
        """Return the workspace of a widget's agent."""
        return widget.workspace or self._workspace

    async def problems(
        self, entries: Sequence[Widget] | None = None, planned: Collection[str] | None = None
    ) -> list[ConfigProblem]:
        """Return what is wrong with widgets now: what they are open to, and agents that are not there.

        `entries`: other widgets than those that are served. `planned`: the agents that the installation's
        own workspace will have.
        """
        found: list[ConfigProblem] = []
        for widget in self.entries if entries is None else entries:
            mistakes = [(one.place, one.text, one.severity) for one in widget_warnings(widget)]
            where = self.workspace_of(widget)
            own = planned if where == self._workspace else None
            if not await has_agent(self._db, where, widget.agent, own):
                text = (
                    f"there is no agent {widget.agent!r} in the workspace {where!r}: visitors get no answer"
                )
                mistakes.append(("agent", text, "error"))
            found += [
                ConfigProblem(kind="widget", name=widget.name, problem=text, place=place, severity=severity)
                for place, text, severity in mistakes
            ]
        return found

    # -- visitors ---------------------------------------------------------------------------------

    async def enter(
        self, name: str, visitor: str | None, *, origin: str, address: str, own_page: bool = False
    ) -> Entered:
        """Give a visitor a token: for the conversation of a valid `visitor` id, else for a new one.

        `origin`: that of the page, which is signed into the id. `own_page`: it is the host's own page of this
        widget. NotFoundError; UnauthorizedError for a page that may not show it; RateLimitedError.
        """
        serving = self._serving(name)
        widget = serving.widget
        if not (widget.takes(origin) or (own_page and widget.try_page)):
            self.counts[name, "origin"] += 1
            raise UnauthorizedError(
                f"pages of {origin!r:.100} may not show this widget: list the origin in its origins"
            )
        ids = self._cursors.scoped(
            "widget visitor", [self.workspace_of(widget), name, widget.agent, widget.generation, origin]
        )
        conversation_id = None if visitor is None else self._conversation(widget, ids, visitor)
        known = conversation_id is not None
        self._within_rates(name, lambda: serving.take_visit(address, conversation_id))
        conversation_id = conversation_id or f"widget-{new_id()}"
        text, token = await self._token(widget, conversation_id, [] if widget.takes(origin) else [origin])
        self.counts[name, "returned" if known else "visitor"] += 1
        return Entered(token, text, ids.issue([conversation_id, int(self._now())]), known)

    def check_message(self, envelope: EventEnvelope, caller: Caller) -> None:
        """Check a message of a front-end token, if a visitor of a widget sends it.

        RateLimitedError over a rate; InvalidArgumentError or UnauthorizedError for what it must not send.
        """
        serving = self._of(caller)
        if serving is None or caller.scope is None:
            return
        check_message(serving.widget, envelope)
        place, address = caller.scope.conversation_id, caller.address
        self._within_rates(serving.widget.name, lambda: serving.take_message(place, address))
        self.counts[serving.widget.name, "message"] += 1

    def upload_limit(self, caller: Caller, most: int) -> int:
        """Return how many bytes a file of the caller may have: `most`, or less for a visitor of a widget.

        RateLimitedError for a visitor over its rate.
        """
        serving = self._of(caller)
        if serving is None or caller.scope is None:
            return most
        place, address = caller.scope.conversation_id, caller.address
        self._within_rates(serving.widget.name, lambda: serving.take_message(place, address))
        return min(most, serving.widget.max_file_mib * MIB)

    def _conversation(self, widget: Widget, ids: ScopedCursors, visitor: str) -> str | None:
        """Return the conversation that a visitor id names; None if it is over, or not of this host."""
        try:
            match ids.read(visitor, "visitor"):
                case [str() as conversation_id, int() as at] if not has_ended(widget, at, self._now()):
                    return conversation_id
        except InvalidArgumentError:
            return None
        return None

    async def _token(self, widget: Widget, conversation_id: str, origins: list[str]) -> tuple[str, Token]:
        ws = self.workspace_of(widget)

        def create(tx: Tx) -> tuple[Token, str]:
            if agents.find(tx, ws, widget.agent) is None:
                raise NotFoundError("the agent of this widget is not there")
            return tokens.create(
                tx,
                ws,
                made_by=widget.key_id,
                agent=widget.agent,
                conversation_id=conversation_id,
                milliseconds=int(TOKEN_MINUTES * 60_000),
                rights=widget.rights,
                origins=origins,
                per_conversation=TOKENS_PER_VISITOR,
            )

        token, text = await self._db.write(create)
        return text, token

    def _within_rates(self, name: str, take: Callable[[], None]) -> None:
        try:
            take()
        except RateLimitedError:
            self.counts[name, "rate"] += 1
            raise

    def _of(self, caller: Caller) -> _Serving | None:
        name = None if caller.scope is None else widget_of(caller.scope.made_by)
        return None if name is None else self._serving(name)

    def _serving(self, name: str) -> _Serving:
        serving = self._served.get(name)
        if serving is None:
            raise NotFoundError("there is no such widget")
        return serving


def _check(wait: float, why: str) -> None:
    if wait:
        raise RateLimitedError(f"{why}: try again later", round(wait, 3))
