"""People who decide what waits for them, and find out what became of calls in doubt.

A clerk looks at all that waits, and decides. In some lives people do more, as `Plan.people` says, each with
a probability per call:

    late      a call that expires soon is left to the clock
    error     a client tool fails
    edit      the arguments are edited
    cancel    the pause is cancelled
    repeat    a decision is sent again under its idempotency key, and then another one under the same key
    wrong     before the decision come some that must be refused
    boss      a second person decides too, at once, perhaps otherwise
    ahead     an approval holds for calls like this one, too (in lives that ahead.py has drawn)
    member    they have signed in, and have no keys (in lives that signing_in.py has drawn)
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import msgspec

from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action as PauseAction
from hostler.domain.pause_actions import ActRequest, Similar
from hostler.domain.pause_views import CallView, PauseView
from hostler.domain.pauses import PauseStatus
from hostler.host.host import Host
from hostler.pauses.service import PausePage
from hostler.simulation.world import HostGoneError, SimulatedHost
from hostler.storage.stores import api_keys
from hostler.storage.stores.api_keys import ApiKey
from hostler_protocol.errors import ConflictError, HostlerError
from simulation.life import TENANT, WORKSPACE, Life
from simulation.plan import MAX_MOMENT, Draft
from simulation.workloads import signing_in
from simulation.workloads.messages import program

ADMIN = frozenset({"admin"})
CLERK = Caller(WORKSPACE, "clerk", "k2", roles=ADMIN, rights=ADMIN)
BOSS = Caller(WORKSPACE, "boss", "k3", roles=ADMIN, rights=ADMIN)
KEEPER = Caller(TENANT, "keeper", "k4", roles=ADMIN, rights=ADMIN)
"""Decides what waits in the second workspace."""
LOOK_SECONDS = 0.5
INQUIRY_SECONDS = 4.0
"""How long it takes at most to find out what became of a call in doubt."""
ASKED_IN_CHAT = ".asks"
"""Titles end so of what people in a chat are asked."""
CHAT_SECONDS = 10.0
SOON_SECONDS = 70.0
"""Calls that expire within so long may be left to the clock. Later they are decided after all."""
PATIENCE_SECONDS = 150.0
NEVER = 1_000
"""No pause comes by so many revisions."""
SAID = {
    "approve": "approved",
    "deny": "denied",
    "result": "answered",
    "error": "answered",
    "answer": "answered",
}
HABITS = ("late", "error", "edit", "cancel", "repeat", "wrong", "boss")


def plan(draft: Draft) -> None:
    """Mostly: an agent whose calls wait for people under rules of all kinds, or one that keeps
    its own state over its pauses."""
    chance = draft.chance("people")
    if chance.random() > 0.7:
        return
    draft.people = {habit: chance.choice([0.0, 0.3, 1.0]) for habit in HABITS}
    draft.people["cancel"] *= 0.2
    rule = {
        "approval": "required",
        "expires_in": chance.choice([60, 1800]),
        "editable": chance.random() < 0.5,
        "on_expiry": chance.choice(["resume", "cancel"]),
    }
    both = {"subjects": ["user:clerk", "user:boss"], "min_approvals": 2}
    draft.agents.append(
        {
            "name": "desk",
            "runner": f"plugin:test/actor/{chance.choice(['resumable', 'plain', 'keeper', 'keeper'])}",
            "concurrency": {"on_busy": "queue", "on_pause": chance.choice(["hold", "supersede"])},
            "resource_policy": {
                "tool_approval": {
                    "actor.refund": {**rule, **chance.choice([{}, both])},
                    "actor.book": {**rule, **chance.choice([{}, {"separation_of_duty": True}])},
                }
            },
            "scope": {"type": "conversation", "id": "only for the desk"},
        }
    )
    draft.settings["hold_seconds"] = chance.choice([0.2, 3.0, 30.0])
    for number in range(chance.randint(1, 3)):
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.6),
            "message",
            id=f"d{number}",
            agent="desk",
            conversation=f"d{chance.randint(1, 2)}",
            steps=_steps(chance, f"d{number}"),
            host=chance.randint(0, 1),
        )


def _steps(chance: random.Random, name: str) -> list[list[Any]]:
    steps = program(chance, name)[:2]
    for number in range(chance.randint(1, 2)):
        text = f"{name}.q{number}"
        match chance.choice(["tools", "ask", "hold"]):
            case "tools":
                kinds = chance.sample(["refund", "book", "pick"], chance.randint(1, 3))
                steps.append(["together", [["tool", kind, text] for kind in kinds]])
            case "ask":
                steps.append(["ask", text, chance.choice([None, 60])])
            case "hold":  # a runner that cannot pause itself passes over it
                kinds = chance.sample(["refund", "pick", "ask"], chance.randint(1, 3))
                steps.append(["hold", [[kind, f"{text}.{kind}"] for kind in kinds]])
                steps += [["tool", kind, f"{text}.{kind}"] for kind in kinds if kind == "refund"]
        steps.append(["say", text])
    return steps


class Person:
    """Somebody who looks at what waits, and decides it."""

    def __init__(self, life: Life, caller: Caller, prefer: int) -> None:
        self.life = life
        self.caller = caller
        self.prefer = prefer
        self.habits = life.plan.people if caller.workspace_id == WORKSPACE else {}
        self.unanswered: list[tuple[str, ActRequest, str, bool]] = []
        self.said: set[tuple[str, str, int]] = set()
        """Calls that this person has decided, with the revision that they had."""
        patience = random.Random(f"patience {life.plan.seed.split('/')[0]}").random()
        self.waits_for_frozen = caller.subject == CLERK.subject and patience < 0.5
        self.asked: dict[str, tuple[str, str]] = {}
        """Run and title of each call that this person has looked at."""
        self.inquiries: dict[tuple[str, str, int], float] = {}
        """Since when it is asked what became of a call in doubt."""

    async def attend(self) -> None:
        """Decide what comes, for as long as the life lasts."""
        await self._take_key()
        while not self.life.over:
            if self.caller.key_id in self.life.revoked:
                await self._get_another_key()
            host = await self._host()
            try:
                while self.unanswered:
                    await self._say(host, *self.unanswered[-1])
                    self.unanswered.pop()
                for status in ("open", "needs_review"):
                    page = await host.ask(partial(self._page, status))
                    for pause in page.items:
                        for call in pause.calls:
                            await self._look_at(host, pause, call)
            except HostGoneError:
                pass
            except HostlerError as error:  # somebody else, or the clock, was quicker
                self.unanswered.clear()
                self._refused(error)
            await self.life.look_again(LOOK_SECONDS)

    async def _host(self) -> SimulatedHost:
        """Return the host to ask. For some people a frozen one, which may answer later."""
        if self.waits_for_frozen:
            for host in self.life.hosts:
                if host.up and host.process is not None and host.process.frozen:
                    return host
        return await self.life.some_host(self.prefer)

    async def _take_key(self) -> None:
        """Get a key of one's own: approvals count for as long as the key that gave them is valid."""
        if self.habits.get(signing_in.HABIT):
            self.caller = await self.life.persist(self.prefer, self._sign_in)
        else:
            key = await self.life.persist(self.prefer, self._make_key)
            self.caller = replace(self.caller, key_id=key.key_id)
        if self.caller.workspace_id == WORKSPACE:
            self.life.keys[self.caller.subject] = self.caller.key_id

    async def _get_another_key(self) -> None:
        """Wait for another key: what was said with one that is revoked does not count any more."""
        while self.caller.key_id not in self.life.renewed:
            await self.life.look_again(LOOK_SECONDS)
        await self._take_key()
        self.unanswered.clear()
        self.said.clear()

    async def _make_key(self, host: Host) -> ApiKey:
        who = self.caller
        key, token = await host.db.write(
            lambda tx: api_keys.create(
                tx,
                who.workspace_id,
                name=who.subject,
                subject=who.subject,
                roles=who.roles,
                rights=who.rights,
            )
        )
        self.life.secrets.add(token)
        return key

    async def _sign_in(self, host: Host) -> Caller:
        caller, token = await host.db.write(lambda tx: signing_in.enter(tx, self.caller))
        self.life.secrets.add(token)
        return caller

    async def _page(self, status: PauseStatus, host: Host) -> PausePage:
        return await host.pauses.page(self.caller, statuses=[status])

    async def _look_at(self, host: Any, pause: PauseView, call: CallView) -> None:
        title = (
            call.title
            if call.tool is None
            else f"{call.tool.rpartition('.')[2]}({call.args.get('text', '')})"
        )
        self.asked[call.call_id] = pause.run_id, title
        if call.review == "in_doubt":
            if call.expires_at is not None:
                self._wrong(f"call {call.call_id} is in doubt, and expires at {call.expires_at}")
            if self.caller.subject != BOSS.subject and self._has_found_out(pause, call):
                await self._resolve(host, pause, call)
            return
        if call.decision != "undecided" or not call.may_decide or self._leaves(pause, call):
            return
        if self._does("cancel", call):
            await host.ask(lambda h: h.pauses.cancel(self.caller, pause.id, reason="not any more"))
            self.life.outside.note("pause cancelled", pause=pause.id, run=pause.run_id)
            return
        action = self._action(call)
        if self._may_approve_ahead(pause, call, action):
            action = msgspec.structs.replace(action, similar=self._similar(call))
        request = ActRequest(revision=pause.revision, actions=[action])
        if self._does("wrong", call):
            await self._say_wrongly(host, pause, call)
        (action,) = request.actions
        decides = action.type != "approve" or (call.approvals_needed < 2 and action.edited_args is None)
        said = (pause.id, request, f"{call.call_id} {pause.revision}", decides)
        self.unanswered.append(said)
        first = await self._say(host, *said)
        self.unanswered.pop()
        self.said.add((pause.id, call.call_id, pause.revision))
        if self._does("repeat", call):
            await self._repeat(host, first, *said)

    def _has_found_out(self, pause: PauseView, call: CallView) -> bool:
        """Some inquiries are over at once, others take a while."""
        now = self.life.world.loop.time()
        began = self.inquiries.setdefault((pause.id, call.call_id, pause.revision), now)
        takes = self._draw("inquiry", call)
        return takes < 0.5 or now - began >= takes * INQUIRY_SECONDS

    def _draw(self, what: str, call: CallView) -> float:
        """Return a number from 0 to 1, the same whenever it is asked about the same call."""
        return random.Random(f"{what} {self.life.plan.seed} {call.kind} {call.title} {call.args}").random()

    def _does(self, habit: str, call: CallView) -> bool:
        return self._draw(habit, call) < self.habits.get(habit, 0.0)

    def _leaves(self, pause: PauseView, call: CallView) -> bool:
        if self.caller.subject == BOSS.subject and call.approvals_needed < 2 and not self._does("boss", call):
            return True
        if (pause.id, call.call_id, pause.revision) in self.said:
            return True
        if call.title.endswith(ASKED_IN_CHAT) and self._leaves_to_chat(pause, call):
            return True
        expires = call.expires_at
        soon = expires is not None and expires - pause.created_at < SOON_SECONDS
        early = self.life.world.loop.time() < PATIENCE_SECONDS
        return soon and early and self._does("late", call)

    def _leaves_to_chat(self, pause: PauseView, call: CallView) -> bool:
        """What a chat is asked is left to those who are there, for a while or not at all."""
        now = self.life.world.loop.time()
        began = self.inquiries.setdefault((pause.id, call.call_id, pause.revision), now)
        return now - began < max(0.0, self._draw("chat", call) - 0.2) * CHAT_SECONDS

    def _action(self, call: CallView) -> PauseAction:
        """The same for the same call, whenever it is asked."""
        if call.kind == "question":
            size = "s" if self.caller.subject == BOSS.subject else "xl"
            return PauseAction(call_id=call.call_id, type="answer", values={"size": size})
        if call.kind == "client_tool":
            if self._does("error", call):
                return PauseAction(call_id=call.call_id, type="error", error="it is not at hand")
            return PauseAction(call_id=call.call_id, type="result", result={"picked": call.args["text"]})
        deny = self._draw(f"{self.caller.subject} denies", call) < 0.2
        kind: Literal["deny", "approve"] = "deny" if deny else "approve"
        edited = None
        if not deny and call.editable and call.proposed_args is None and self._does("edit", call):
            edited = _edited(call)
        return PauseAction(call_id=call.call_id, type=kind, args_hash=call.args_hash, edited_args=edited)

    def _may_approve_ahead(self, pause: PauseView, call: CallView, action: PauseAction) -> bool:
        single = pause.agent == "ahead" and action.edited_args is None
        return action.type == "approve" and single and self._does("ahead", call)

    def _similar(self, call: CallView) -> Similar:
        arguments: list[str] | None = [] if self._draw("any arguments", call) < 0.5 else None
        return Similar(uses=1 + int(self._draw("uses", call) * 3), arguments=arguments)

    async def _say(self, host: Any, pause_id: str, request: ActRequest, key: str, decides: bool) -> Any:
        """Send a vote or a decision. `decides`: the call needs no further one."""
        answer = await host.ask(lambda h: h.pauses.act(self.caller, pause_id, request, idempotency_key=key))
        (action,) = request.actions
        self.life.outside.note(
            "decided" if decides and self.caller.key_id not in self.life.revoked else "voted",
            pause=pause_id,
            revision=request.revision,
            call=action.call_id,
            run=self.asked[action.call_id][0],
            title=self.asked[action.call_id][1],
            type=action.type,
            decision=SAID[action.type],
            by=self.caller.subject,
            edited=action.edited_args,
            ahead=None if action.similar is None else action.similar.uses,
            remaining=answer.remaining,
        )
        return answer

    async def _repeat(
        self, host: Any, first: Any, pause_id: str, request: ActRequest, key: str, decides: bool
    ) -> None:
        """Send a decision that was acknowledged again, then another one under its key."""
        try:
            again = await self._say(host, pause_id, request, key, decides)
        except ConflictError as error:
            self._wrong(f"a decision that was acknowledged was refused under the same key: {error.message}")
            return
        self.life.outside.note("repeated", pause=pause_id)
        if first != again:
            self._wrong(f"the same decision under the same key was answered {first}, then {again}")
        (action,) = request.actions
        other = ActRequest(
            revision=request.revision, actions=[PauseAction(call_id=action.call_id, type="deny")]
        )
        await self._must_refuse(host, pause_id, other, key, "another decision under the key of one")

    async def _say_wrongly(self, host: Any, pause: PauseView, call: CallView) -> None:
        right = self._action(call)
        wrong = [
            (pause.revision + NEVER, right, "a decision on a revision that does not exist"),
            (
                pause.revision,
                PauseAction(call_id=f"{call.call_id}x", type=right.type),
                "a decision on an unknown call",
            ),
        ]
        if call.kind in ("approval", "budget"):
            bad = PauseAction(call_id=call.call_id, type="approve", args_hash="0" * len(call.args_hash))
            wrong.append((pause.revision, bad, "an approval of other arguments"))
            wrong.append(
                (pause.revision, PauseAction(call_id=call.call_id, type="result", result=1), "the wrong kind")
            )
        for revision, action, what in wrong:
            await self._must_refuse(
                host, pause.id, ActRequest(revision=revision, actions=[action]), None, what
            )

    async def _must_refuse(
        self, host: Any, pause_id: str, request: ActRequest, key: str | None, what: str
    ) -> None:
        try:
            await host.ask(lambda h: h.pauses.act(self.caller, pause_id, request, idempotency_key=key))
        except HostGoneError:
            raise
        except HostlerError as error:
            self._refused(error)
        else:
            self._wrong(f"{what} was accepted, for pause {pause_id}")

    async def _resolve(self, host: Any, pause: PauseView, call: CallView) -> None:
        text = call.args.get("body", call.args).get("text")  # by which shop and desk know it
        effects = [effect for effect in self.life.outside.effects if effect.run == pause.run_id]
        made = [effect for effect in effects if effect.call in (call.call_id, text) and effect.made]
        outcome, result = ("happened", {"serial": made[-1].serial}) if made else ("not_happened", None)
        await host.ask(lambda h: h.pauses.resolve(self.caller, pause.id, call.call_id, outcome, result))
        self.life.outside.note("resolved", run=pause.run_id, call=call.call_id, text=text, outcome=outcome)

    def _refused(self, error: HostlerError) -> None:
        self.life.outside.note(
            "decision refused",
            by=self.caller.subject,
            code=error.code,
            reason=error.details.get("reason"),
            error=error.message,
        )

    def _wrong(self, text: str) -> None:
        self.life.outside.note("wrong", text=text)


def _edited(call: CallView) -> dict[str, Any]:
    if call.kind == "budget":  # the same for each run that asks of the same account
        ((what, amount),) = call.args["top_up"].items()
        return {**call.args, "top_up": {what: amount * 3}}
    return {"text": f"{call.args['text']} edited"}


async def attend(life: Life) -> None:
    """Let the clerk decide."""
    await Person(life, CLERK, 0).attend()


async def attend_too(life: Life) -> None:
    """Let a second person decide, at another host, in lives that have one."""
    if life.plan.people:
        await Person(life, BOSS, 1).attend()


async def attend_tenant(life: Life) -> None:
    """Let somebody decide in the second workspace, in lives that have one."""
    if life.plan.tenant:
        await Person(life, KEEPER, 0).attend()
