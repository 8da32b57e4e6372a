"""The agent of the suite as a plain function."""

import json

from hostler_adapters.functions import runner

PAY = {
    "type": "function",
    "function": {
        "name": "pay",
        "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}},
    },
}


async def suite(turn):
    messages = turn.messages
    while True:
        stream = await turn.client.chat.completions.create(
            model="default", messages=messages, tools=[*turn.tools, PAY], stream=True
        )
        text, calls = "", {}
        async for chunk in stream:
            for choice in chunk.choices:
                if choice.delta.content:
                    text += choice.delta.content
                    yield choice.delta.content
                for part in choice.delta.tool_calls or []:
                    call = calls.setdefault(
                        part.index, {"id": part.id, "name": part.function.name, "arguments": ""}
                    )
                    call["arguments"] += part.function.arguments or ""
        if not calls:
            turn.memory["answers"] = turn.memory.get("answers", 0) + 1
            return
        wishes = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for c in calls.values()
        ]
        messages.append({"role": "assistant", "content": text or None, "tool_calls": wishes})
        for wish in wishes:
            messages.append(
                await pay(turn, wish) if wish["function"]["name"] == "pay" else await turn.call(wish)
            )
        messages += await turn.steers()


async def pay(turn, wish):
    amount = json.loads(wish["function"]["arguments"])["amount"]
    verdict = await turn.approve("pay", {"amount": amount})
    content = f"paid {amount}" if verdict.approved else verdict.reason
    return {"role": "tool", "tool_call_id": wish["id"], "content": content}


Suite = runner(suite, name="suite")
