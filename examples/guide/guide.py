"""A scripted guide: no model, no key, and still everything a run can do."""

import asyncio
import re
from collections.abc import AsyncIterator

from hostler_sdk import Result, RunContext, Runner, artifact, delta, message

NAME = re.compile(r"\b(?:my name is|call me|i am called)\s+([^\s,.!?;:]+)", re.IGNORECASE)
COUNT = re.compile(r"\bcount to (\d+)", re.IGNORECASE)
NOTE = re.compile(r"\b(?:note|write down)\b[:,]?\s*(.*)", re.IGNORECASE | re.DOTALL)

WELCOME = """\
Hello{name}! No model is behind me, only a script. Try:

- "my name is Ada" (kept in the state)
- "who am I?" (read back, even after a restart)
- "what did I say?" (from the history)
- "note: buy bread" (makes an artifact)
- "count to 20" (streams)"""


class Guide(Runner):
    """Guide

    Shows streaming, state, history and artifacts. Needs no key and no network.
    """

    capabilities = {"streaming", "resumable"}
    permissions = {"history": ["page"]}
    config = [
        {
            "name": "pace",
            "type": "float",
            "default": 0.005,
            "label": {"en": "Seconds per word"},
            "description": {"en": "How slowly answers are streamed; 0 for as fast as can be."},
        }
    ]

    async def run(self, ctx: RunContext) -> AsyncIterator[Result]:
        """Answer one message."""
        said = ctx.input.text.strip()
        lowered = said.lower()
        if found := NAME.search(said):
            answer = await learn_name(ctx, found[1])
        elif "who am i" in lowered or "my name" in lowered:
            answer = await recall_name(ctx)
        elif "did i say" in lowered or "history" in lowered:
            answer = await look_back(ctx)
        elif found := COUNT.search(said):
            answer = " ".join(str(number) for number in range(1, min(int(found[1]), 1000) + 1))
        elif found := NOTE.search(said):
            text = found[1].strip() or "(an empty note)"
            yield artifact("file", content=text + "\n", name="note.txt")
            answer = f'I wrote "{text}" into note.txt. It is an artifact of this run now, kept by the host.'
        else:
            name = await ctx.states.get(scope_of(ctx), "name")
            answer = WELCOME.format(name=f", {name}" if name else "")

        for word in re.findall(r"\S+\s*", answer):
            yield delta(word)
            await asyncio.sleep(ctx.config["pace"])
        yield message(answer)


def scope_of(ctx: RunContext) -> str:
    """A name belongs to a person; where nobody is named, to the conversation."""
    return "actor" if ctx.actor and ctx.actor.actor_id else "conversation"


async def learn_name(ctx: RunContext, name: str) -> str:
    """Keep a name in the state."""
    before = await ctx.states.get(scope_of(ctx), "name")
    await ctx.states.set(scope_of(ctx), "name", name)
    if before and before != name:
        return f"{name} it is, then, no longer {before}. Ask me who you are, also after a restart."
    return f"Nice to meet you, {name}. Ask me who you are, now or after a restart: I will remember."


async def recall_name(ctx: RunContext) -> str:
    """Read the name back."""
    name = await ctx.states.get(scope_of(ctx), "name")
    if name is None:
        return 'You have not told me yet. Say "my name is ..." and I will keep it.'
    return f"You are {name}. You told me in an earlier turn; this very run started without knowing."


async def look_back(ctx: RunContext) -> str:
    """Tell what was said before, from the history that the host keeps."""
    page = await ctx.history.page(limit=20)
    said = [item.content for item in reversed(page.items) if item.role == "user"]
    if not said:
        return "Nothing yet: this is the first message of our conversation."
    lines = "\n".join(f"- {text}" for text in said[-5:])
    return f"Before this message you said:\n{lines}"
