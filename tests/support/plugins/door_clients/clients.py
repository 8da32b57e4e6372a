"""Clients of a model service, each as its own documentation says, at the model door of a run.

The event's text is JSON: which client, how it reaches the door, and in which attempts the process ends where.
Each client asks with a tool, calls it, sends the result back, and reads the second answer as a stream.
"""

import asyncio
import importlib
import json
import os
import signal
import sys
from pathlib import Path

from hostler_sdk import Runner, message

TOOL = {
    "type": "function",
    "function": {
        "name": "price",
        "description": "The price of a thing.",
        "parameters": {"type": "object", "properties": {"thing": {"type": "string"}}, "required": ["thing"]},
    },
}
QUESTION = "What does a lamp cost?"


class Clients(Runner):
    """Calls models by other programs' clients."""

    capabilities = {"resumable", "streaming"}
    permissions = {"models": ["invoke", "stream", "embed", "count_tokens"], "tools": ["call"]}
    config = [{"name": "model", "type": "model-fallback-selector"}]

    async def run(self, ctx):
        asked = json.loads(ctx.input.text)
        client = getattr(self, asked["client"])
        yield message(json.dumps(await client(ctx, asked), ensure_ascii=False))

    async def openai(self, ctx, asked):
        openai = await loaded("openai")
        if asked.get("memory"):
            client = ctx.models.openai_client()
        else:
            client = openai.AsyncOpenAI(base_url=ctx.models.openai_url, api_key=ctx.models.openai_key)
        if "key" in asked:
            client = client.with_options(api_key=asked["key"], max_retries=0)
        chat = client.chat.completions
        messages = [{"role": "user", "content": QUESTION}]
        try:
            first = await chat.create(model="default", messages=messages, tools=[TOOL])
        except openai.APIStatusError as error:
            return {"error": type(error).__name__, "status": error.status_code, **error.body}
        crash(ctx, asked, 1)
        said = first.choices[0].message
        (call,) = said.tool_calls
        result = await self.price(ctx, json.loads(call.function.arguments))
        messages += [said, {"role": "tool", "tool_call_id": call.id, "content": result}]
        usage = {"include_usage": True}
        pieces, used = [], None
        stream = await chat.create(
            model="default", messages=messages, tools=[TOOL], stream=True, stream_options=usage
        )
        async for chunk in stream:
            pieces += [choice.delta.content for choice in chunk.choices if choice.delta.content]
            used = chunk.usage or used
            crash(ctx, asked, 2, len(pieces))
        crash(ctx, asked, 3)
        answer = await client.responses.create(model="default", input="Thanks!")
        vectors = await client.embeddings.create(model="vectors", input=["lamp", "shade"])
        return {
            "pieces": pieces,
            "tokens": used.total_tokens,
            "response": answer.output_text,
            "vectors": [one.embedding for one in vectors.data],
            "models": [model.id for model in (await client.models.list()).data],
        }

    async def anthropic(self, ctx, asked):
        anthropic = await loaded("anthropic")
        if asked.get("memory"):
            client = ctx.models.anthropic_client()
        else:
            client = anthropic.AsyncAnthropic(
                base_url=ctx.models.anthropic_url, api_key=ctx.models.openai_key
            )
        if "key" in asked:
            client = client.with_options(api_key=asked["key"], max_retries=0)
        function = TOOL["function"]
        tool = {
            "name": "price",
            "description": function["description"],
            "input_schema": function["parameters"],
        }
        settings = {"model": "default", "max_tokens": 4096, "tools": [tool]}
        messages = [{"role": "user", "content": QUESTION}]
        try:
            first = await client.messages.create(messages=messages, **settings)
        except anthropic.APIStatusError as error:
            return {"error": type(error).__name__, "status": error.status_code, **error.body["error"]}
        crash(ctx, asked, 1)
        (call,) = [block for block in first.content if block.type == "tool_use"]
        result = await self.price(ctx, call.input)
        messages += [
            {"role": "assistant", "content": first.content},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call.id, "content": result}],
            },
        ]
        pieces = []
        async with client.messages.stream(messages=messages, **settings) as stream:
            async for piece in stream.text_stream:
                pieces.append(piece)
                crash(ctx, asked, 2, len(pieces))
            whole = await stream.get_final_message()
        crash(ctx, asked, 3)
        counted = await client.messages.count_tokens(model="default", messages=messages[:1])
        return {
            "pieces": pieces,
            "tokens": whole.usage.input_tokens + whole.usage.output_tokens,
            "reasons": [first.stop_reason, whole.stop_reason],
            "counted": counted.input_tokens > 0,
            "models": [model.id async for model in client.models.list()],
        }

    async def langchain(self, ctx, asked):
        messages_of, chat = await loaded("langchain_core.messages"), await loaded("langchain_openai")
        if asked.get("memory"):
            place = {
                "base_url": "http://door.invalid/v1",
                "http_async_client": ctx.models.openai_http_client(),
            }
        else:
            place = {"base_url": ctx.models.openai_url}
        model = chat.ChatOpenAI(model="default", api_key=ctx.models.openai_key, **place).bind_tools([TOOL])
        messages = [messages_of.HumanMessage(QUESTION)]
        first = await model.ainvoke(messages)
        crash(ctx, asked, 1)
        (call,) = first.tool_calls
        result = await self.price(ctx, call["args"])
        messages += [first, messages_of.ToolMessage(result, tool_call_id=call["id"])]
        pieces = []
        async for chunk in model.astream(messages):
            pieces += [chunk.text] if chunk.text else []
            crash(ctx, asked, 2, len(pieces))
        return {"pieces": pieces}

    async def litellm(self, ctx, asked):
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it downloads a file when imported
        litellm = await loaded("litellm")
        if asked.get("memory"):
            place = {"client": ctx.models.openai_client()}
        else:
            place = {"api_base": ctx.models.openai_url, "api_key": ctx.models.openai_key}
        messages = [{"role": "user", "content": QUESTION}]
        first = await litellm.acompletion("openai/default", messages=messages, tools=[TOOL], **place)
        crash(ctx, asked, 1)
        said = first.choices[0].message
        (call,) = said.tool_calls
        result = await self.price(ctx, json.loads(call.function.arguments))
        messages += [said.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": result}]
        pieces = []
        stream = await litellm.acompletion(
            "openai/default", messages=messages, tools=[TOOL], stream=True, **place
        )
        async for chunk in stream:
            pieces += [choice.delta.content for choice in chunk.choices if choice.delta.content]
            crash(ctx, asked, 2, len(pieces))
        return {"pieces": pieces}

    async def environment(self, ctx, asked):
        """A program that blocks, and knows the door by its environment."""
        openai = await loaded("openai")

        def blocking():
            answer = openai.OpenAI().chat.completions.create(
                model="default", messages=[{"role": "user", "content": QUESTION}]
            )
            return answer.choices[0].message.content

        async with ctx.models.openai_environment():
            return {"pieces": [await asyncio.to_thread(blocking)]}

    async def node(self, ctx, asked):
        """A program in JavaScript, which gets the tool's result by its input."""
        child = await asyncio.create_subprocess_exec(
            "node",
            str(Path(__file__).with_name("agent.mjs")),
            env={**os.environ, **ctx.models.openai_variables},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=sys.stderr,
        )
        pieces = []
        while line := await child.stdout.readline():
            said = json.loads(line)
            if "call" in said:
                crash(ctx, asked, 1)
                child.stdin.write((json.dumps(await self.price(ctx, said["call"])) + "\n").encode())
            elif "piece" in said:
                pieces.append(said["piece"])
                crash(ctx, asked, 2, len(pieces))
            else:
                return {"pieces": pieces, **said}
        raise RuntimeError(f"the program ended with status {await child.wait()}")

    async def price(self, ctx, arguments):
        return str(await ctx.tools.call("door-clients.price", arguments))


async def loaded(package):
    """Import a large package without blocking the loop: LiteLLM takes 10 s, and a ping has to be answered."""
    return await asyncio.to_thread(importlib.import_module, package)


def crash(ctx, asked, place, pieces=1):
    """End the process by force, in the first attempts and at the place that the test names."""
    if ctx.attempt <= asked.get("crashes", 0) and asked.get("at") == place and pieces == 1:
        os.kill(os.getpid(), signal.SIGKILL)
