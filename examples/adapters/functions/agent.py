"""A clerk as a plain function: it asks the run's model, and calls the tools that it wishes for."""

from hostler_adapters.functions import runner

INSTRUCTIONS = {"role": "system", "content": "You are a clerk in a hotel. Be brief."}


async def clerk(turn):
    """Answer the guest."""
    messages = [INSTRUCTIONS, *turn.messages]
    while True:
        answer = await turn.client.chat.completions.create(
            model="default", messages=messages, tools=turn.tools
        )
        said = answer.choices[0].message
        if not said.tool_calls:
            return said.content
        messages.append(said)
        messages += [await turn.call(call) for call in said.tool_calls]
        messages += await turn.steers()


Clerk = runner(clerk, name="clerk")
