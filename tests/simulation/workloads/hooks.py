"""A service that sends signed requests to a hook until it is answered, sends some again, and one who lies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from functools import partial
from typing import Any

from hostler.domain.hook_answers import HookAnswer
from hostler.domain.hook_signatures import HookRefusedError, HookRequest
from hostler.host.host import Host
from hostler.simulation.entropy import EPOCH
from hostler_protocol.errors import HostlerError, RateLimitedError
from simulation.life import RETRY_SECONDS, Life
from simulation.plan import MAX_MOMENT, Action, Draft

NAME = "bell"
AGENT = "porter"
KEY = b"between the sender and its hook"
SECRET_NAME = "HOSTLER_SIMULATED_HOOK_SECRET"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
os.environ[SECRET_NAME] = SECRET
MAX_REFUSALS = 20
"""A right request that is refused so often is given up: its sender's clock and the host's are apart."""


def plan(draft: Draft) -> None:
    """A hook, its agent, and requests; some come again, some from somebody who does not know the secret."""
    chance = draft.chance("hooks")
    draft.hooks.append(entry(chance.choice([1.0, 50.0])))
    draft.agents.append(
        {
            "name": AGENT,
            "runner": "plugin:test/actor/resumable",
            "concurrency": {"on_busy": chance.choice(["queue", "parallel"])},
            "recovery": {"max_attempts": 3},
            "scope": {"type": "conversation", "id": "only for the porter"},
        }
    )
    for number in range(chance.randint(2, 6)):
        wait = round(chance.uniform(0.01, 2), 3)
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.8),
            "ring",
            id=f"ring{number}",
            conversation=f"rings{chance.randint(1, 2)}",
            steps=[["tool", chance.choice(["note", "book"]), f"ring{number}.1"], ["wait", wait]],
            host=chance.randint(0, 1),
            again=chance.choice([0, 0, 1, 3]),
            known=chance.random() < 0.8,
        )


def entry(rate: float) -> dict[str, Any]:
    """Return the entry of the hook."""
    return {
        "name": NAME,
        "verify": "standard",
        "secrets": [f"env:{SECRET_NAME}"],
        "agent": AGENT,
        "map": {"conversation_id": "body.conversation", "text": "body.text"},
        "requests_per_second": rate,
    }


async def ring(life: Life, action: Action) -> None:
    """Send a request until the host has it, and then as often again."""
    data = action.data
    for _ in range(1 + data["again"]):
        await _send(life, data)


async def _send(life: Life, data: dict[str, Any]) -> None:
    body = json.dumps({"conversation": data["conversation"], "text": json.dumps(data["steps"])}).encode()
    refusals = 0
    while True:
        work = partial(_receive, name=data["id"], body=body, known=data["known"], life=life)
        try:
            answer = await life.persist(data["host"], work)
        except HookRefusedError as error:
            life.outside.note("hook refused", id=data["id"], known=data["known"], reason=error.refusal)
            refusals += 1
            if not data["known"] or refusals == MAX_REFUSALS:
                return
        except RateLimitedError:
            life.outside.note("not now", code="rate_limited")
        except HostlerError as error:
            life.outside.note("hook answered with an error", id=data["id"], code=error.code)
            return
        else:
            life.outside.note("hook took", id=data["id"], known=data["known"], **json.loads(answer.body))
            return
        await life.look_again(RETRY_SECONDS)


async def _receive(host: Host, *, name: str, body: bytes, known: bool, life: Life) -> HookAnswer:
    """Send it once, signed as its sender would, at its own time."""
    moment = str(int(EPOCH + life.world.loop.time()))
    key = KEY if known else b"a guess"
    signature = hmac.new(key, f"{name}.{moment}.".encode() + body, hashlib.sha256).digest()
    headers = {
        "webhook-id": name,
        "webhook-timestamp": moment,
        "webhook-signature": "v1," + base64.b64encode(signature).decode(),
        "content-type": "application/json",
    }
    request = HookRequest(f"https://hostler.example/v1/hooks/{NAME}", headers, "", body)
    return await host.hooks.receive(NAME, request, "192.0.2.7")


ACTIONS = {"ring": ring}
