"""A plugin in plain Python that speaks the wire itself and takes the steps that a run's input lists.

The input's text is JSON: a list of steps, or an object of such lists by attempt ("1", "2", ...; "else").
A step is a list, its first item says which:

    result TYPE DATA [MORE]   send a result; MORE are further members of its envelope
    say TEXT                  send a completed message
    long SIZE                 say that many characters
    half                      say half a character
    number TEXT               write a state value as `nan` or `inf`, which JSON does not have
    deltas COUNT [TEXT]       send that many deltas
    call METHOD PARAMS        make a host call and keep what came back
    give_up METHOD PARAMS N   make a call and give it up after N pieces of its answer; says how many came
    leave METHOD PARAMS PATH  make a call and give it up once the Unix socket is closed
    tell                      say what calls were answered, as JSON
    show_context              say the context of the run, as JSON
    show_config_digest        say how long the token of the configuration is
    pid                       say the process id
    gate PATH                 connect to a Unix socket and go on once it is closed
    until_cancelled           go on once the run is cancelled
    hold                      go on never, whatever happens
    crash [ATTEMPT]           kill the process, in that attempt where one is given
    at ATTEMPT STEPS          take these steps in that attempt only
    together LISTS            take several lists of steps at once
    silent                    do not send `run/end`

In DATA and PARAMS a text "$N.a.b" is looked up in answer N. With `--connect URL` on its command line it
dials a host instead of using stdin and stdout.
"""

import asyncio
import itertools
import json
import os
import signal
import sys

AUTHOR, NAME = os.environ.get("STEPPER_IDENTITY", "test/stepper").split("/")
ALL = {
    "models": ["invoke", "stream", "rerank", "embed", "count_tokens"],
    "history": ["page", "search"],
    "events": ["get", "page"],
    "artifacts": ["metadata", "read"],
    "storage": ["plugin", "workspace"],
    "runs": ["get", "list", "events", "cancel", "create"],
    "actions": ["message.delete"],
    "tools": ["detail", "call"],
    "schedules": ["create", "list", "delete"],
}
FORM = [
    {"name": "model", "type": "model-fallback-selector"},
    {"name": "colour", "type": "select", "options": ["red", "blue"], "default": "red"},
    {"name": "token", "type": "secret"},
]
RUNNERS = {
    "default": {"permissions": ALL, "config_schema": FORM},
    "resumable": {"permissions": ALL, "config_schema": FORM, "capabilities": {"resumable": True}},
    "steered": {
        "permissions": ALL,
        "config_schema": FORM,
        "capabilities": {"resumable": True, "steering": True},
    },
    "keeper": {"permissions": ALL, "capabilities": {"continuation": True}},
    "both": {"permissions": ALL, "capabilities": {"continuation": True, "resumable": True}},
    "bare": {},
}


class Plugin:
    """One process, many runs."""

    def __init__(self, write):
        self.write = write
        self.ids = itertools.count(1)
        self.open = {}
        self.pieces = {}
        self.runs = {}
        self.tasks = set()

    def send(self, message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}))

    def take(self, line):
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            waiting = self.open.pop(message["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message.get("result", {"error": message.get("error", {}).get("data")}))
        elif "id" in message:
            self.send({"id": message["id"], "result": self.answer(method, params)})
        elif method == "host/stream":
            self.pieces.setdefault(params["id"], asyncio.Queue()).put_nowait(params["chunk"])
        elif method == "run/credit":
            self.runs[params["run_id"]].credit.release_many(params["results"])
        elif method == "run/cancel" and params["run_id"] in self.runs:
            self.runs[params["run_id"]].cancelled.set()

    def answer(self, method, params):
        if method == "initialize":
            return {"protocol": 1, "plugin": {"author": AUTHOR, "name": NAME, "version": "1.0.0"}}
        if method == "runners/list":
            base = f"plugin:{AUTHOR}/{NAME}/"
            return {
                "runners": [
                    {"id": base + name, "name": name, "label": {"en": name}, **more}
                    for name, more in RUNNERS.items()
                ]
            }
        if method == "run/start":
            run = self.runs[params["context"]["run_id"]] = Run(self, params)
            task = asyncio.get_running_loop().create_task(run.go())
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        if method == "shutdown":
            asyncio.get_running_loop().create_task(self.leave())
        return {}

    async def leave(self):
        await asyncio.gather(*self.tasks, return_exceptions=True)
        sys.exit(0)


class Credit(asyncio.Semaphore):
    """How many results may be sent."""

    def release_many(self, count):
        for _ in range(count):
            self.release()


class Run:
    """One attempt of one run."""

    def __init__(self, plugin, params):
        self.plugin = plugin
        self.context = params["context"]
        self.run_id = self.context["run_id"]
        self.credit = Credit(params["credit"])
        self.cancelled = asyncio.Event()
        self.answers = []
        self.sequence = 0

    async def go(self):
        steps = json.loads(self.context["input"]["text"])
        if isinstance(steps, dict):
            steps = steps.get(str(self.context["attempt"]), steps.get("else", []))
        if not await self.take(steps):
            return
        self.plugin.send({"method": "run/end", "params": {"run_id": self.run_id}})

    async def take(self, steps):
        """Take steps; False: the run is to say nothing more."""
        for step in steps:
            if step[0] == "silent":
                return False
            try:
                await getattr(self, step[0])(*step[1:])
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                text = f"step {step[0]}: {error!r} after {self.answers!r:.2000}"
                await self.result("run.failed", {"code": "stepper.wrong", "error": text})
        return True

    async def result(self, kind, data, more=None):
        await self.credit.acquire()
        self.sequence += 1
        data = self.filled(data)
        params = {
            "run_id": self.run_id,
            "type": kind,
            "sequence": self.sequence,
            "data": data,
            **(more or {}),
        }
        self.plugin.send({"method": "run/result", "params": params})

    async def say(self, text):
        await self.result("message.completed", {"message": {"role": "assistant", "content": text}})

    async def half(self):
        await self.say("half \ud83d")

    async def number(self, text):
        await self.result("state.updated", {"scope": "actor", "key": "k", "value": float(text)})

    async def long(self, size):
        await self.say("x" * size)

    async def deltas(self, count, text="x"):
        for _ in range(count):
            await self.result("message.delta", {"chunk": {"role": "assistant", "content": text}})

    async def call(self, method, params):
        id_ = f"c{next(self.plugin.ids)}"
        waiting = self.plugin.open[id_] = asyncio.get_running_loop().create_future()
        params = {"run_id": self.run_id, **self.filled(params)}
        self.plugin.send({"id": id_, "method": f"host/{method}", "params": params})
        self.answers.append(await waiting)

    async def give_up(self, method, params, count):
        id_ = f"c{next(self.plugin.ids)}"
        pieces = self.plugin.pieces.setdefault(id_, asyncio.Queue())
        self.plugin.send(
            {"id": id_, "method": f"host/{method}", "params": {"run_id": self.run_id, **self.filled(params)}}
        )
        for _ in range(count):
            await pieces.get()
        self.plugin.send({"method": "host/cancel", "params": {"id": id_}})
        await self.say(f"{count} pieces")

    async def leave(self, method, params, path):
        id_ = f"c{next(self.plugin.ids)}"
        params = {"run_id": self.run_id, **self.filled(params)}
        self.plugin.send({"id": id_, "method": f"host/{method}", "params": params})
        await self.gate(path)
        self.plugin.send({"method": "host/cancel", "params": {"id": id_}})

    def filled(self, value):
        """`value` with references to earlier answers replaced."""
        if isinstance(value, dict):
            return {key: self.filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(inner) for inner in value]
        if isinstance(value, str) and value.startswith("$"):
            first, *rest = value[1:].split(".")
            found = self.answers[int(first)]
            for name in rest:
                found = found[int(name)] if isinstance(found, list) else found[name]
            return found
        return value

    async def tell(self):
        await self.say(json.dumps(self.answers))

    async def show_context(self):
        await self.say(json.dumps(self.context))

    async def show_config_digest(self):
        await self.say(json.dumps({"token_seen": len(self.context["config"]["token"])}))

    async def pid(self):
        await self.say(str(os.getpid()))

    async def gate(self, path):
        reader, writer = await asyncio.open_unix_connection(path)
        await reader.read()
        writer.close()

    async def until_cancelled(self):
        await self.cancelled.wait()

    async def hold(self):
        await asyncio.Event().wait()

    async def crash(self, attempt=None):
        if attempt in (None, self.context["attempt"]):
            os.kill(os.getpid(), signal.SIGKILL)

    async def at(self, attempt, steps):
        if attempt == self.context["attempt"]:
            await self.take(steps)

    async def together(self, *lists):
        await asyncio.gather(*map(self.take, lists))


async def over_stdio():
    """One message a line."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    def write(text):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    plugin = Plugin(write)
    while line := await reader.readline():
        plugin.take(line)


async def over_websocket(url, token):
    """One message a frame."""
    import websockets

    outgoing = asyncio.Queue()
    headers = {"authorization": f"Bearer {token}"}
    async with websockets.connect(url, additional_headers=headers, max_size=None) as socket:

        async def send_all():
            while True:
                await socket.send(await outgoing.get())

        sending = asyncio.get_running_loop().create_task(send_all())
        plugin = Plugin(outgoing.put_nowait)
        async for frame in socket:
            plugin.take(frame)
        sending.cancel()


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--connect":
        asyncio.run(over_websocket(sys.argv[2], os.environ["STEPPER_TOKEN"]))
    else:
        asyncio.run(over_stdio())
