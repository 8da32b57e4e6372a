"""Sends requests to the model door of its run, as the event lists them, by hand and in threads.

Each is an object: `body` (or `raw`, `long` times), and if need be `path`, `method`, `key`, `headers`, `port`,
`times`, `together`. `crash: N` ends the process in the first N attempts; `tell` tells key and port.
"""

import asyncio
import contextlib
import http.client
import json
import os
import signal
from urllib.parse import urlsplit

from hostler_sdk import Runner, message

HERE = "127.0.0.2"


class DoorUser(Runner):
    """Uses its door."""

    capabilities = {"resumable"}
    permissions = {"models": ["invoke", "stream"]}
    config = [{"name": "model", "type": "model-fallback-selector"}]

    async def run(self, ctx):
        url = urlsplit(ctx.models.openai_url)
        found = []
        for step in json.loads(ctx.input.text):
            if "crash" in step:
                if ctx.attempt <= step["crash"]:
                    os.kill(os.getpid(), signal.SIGKILL)
                continue
            if step.get("tell"):
                found.append({"port": url.port, "key": ctx.models.openai_key})
                continue
            one = {"key": ctx.models.openai_key, "port": url.port, **step}
            count = step.get("times", 1)
            if step.get("together"):
                found += await asyncio.gather(*(asyncio.to_thread(send, one) for _ in range(count)))
            else:
                found += [await asyncio.to_thread(send, one) for _ in range(count)]
        yield message(json.dumps(found))


def send(step):
    """One request on a connection of its own: its status, and its error or text."""
    body = (
        (step["raw"] * step.get("long", 1)).encode()
        if "raw" in step
        else json.dumps(step.get("body", {})).encode()
    )
    headers = {"authorization": f"Bearer {step['key']}", **step.get("headers", {})}
    connection = http.client.HTTPConnection(HERE, step["port"], timeout=60)
    try:
        # refused before the whole body was read: the answer is there
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(
                step.get("method", "POST"), step.get("path", "/v1/chat/completions"), body, headers
            )
        answer = connection.getresponse()
        said = json.loads(answer.read())
        return {
            "status": answer.status,
            "code": said.get("error", {}).get("code"),
            "said": said["choices"][0]["message"]["content"] if "choices" in said else None,
            "retry": answer.getheader("retry-after"),
        }
    except OSError as error:
        return {"error": type(error).__name__}
    finally:
        connection.close()
