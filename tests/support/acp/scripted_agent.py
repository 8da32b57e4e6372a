"""A coding agent that does what the prompt says: a program of its own, on the official SDK of the protocol.

A prompt is a JSON list of steps; any other text goes on with the steps that a cancelled turn left. What it
sees is written to `agent.log` in its folder, and its sessions to `sessions/`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from uuid import uuid4

import acp
from acp import schema

FLAGS = argparse.ArgumentParser()
FLAGS.add_argument("--no-load", action="store_true")
FLAGS.add_argument("--resume", choices=["works", "broken"])
FLAGS.add_argument("--http", action="store_true")
FLAGS.add_argument("--media", action="store_true")
FLAGS.add_argument("--auth", choices=["key", "method"])
FLAGS.add_argument("--version", type=int, default=1)
FLAGS.add_argument("--hang", choices=["start", "session"])
FLAGS.add_argument("--banner", type=int, default=0)
FLAGS.add_argument("--die-at-start", default="")
FLAGS.add_argument("--bad-session", action="store_true")
FLAGS.add_argument("--modes", action="store_true")
FLAGS.add_argument("--talk", type=Path, help="a file with a JSON object: what to do when a text is said")


class Cancelled(Exception):
    """The client has cancelled the turn."""


class ScriptedAgent:
    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self.cancelled: dict[str, asyncio.Event] = {}
        self.servers: dict[str, list[Any]] = {}
        self.signed_in = False
        self.client: Any = None

    def on_connect(self, client: Any) -> None:
        self.client = client

    def note(self, what: str, **facts: Any) -> None:
        with Path("agent.log").open("a") as file:
            file.write(json.dumps({"what": what, "pid": os.getpid(), **facts}) + "\n")

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        self.note("initialize", asked=protocol_version)
        if self.flags.hang == "start":
            await asyncio.Event().wait()
        resume = schema.SessionResumeCapabilities() if self.flags.resume else None
        return schema.InitializeResponse(
            protocol_version=self.flags.version,
            agent_capabilities=schema.AgentCapabilities(
                load_session=not self.flags.no_load,
                prompt_capabilities=schema.PromptCapabilities(
                    image=self.flags.media, embedded_context=self.flags.media
                ),
                mcp_capabilities=schema.McpCapabilities(http=self.flags.http),
                session_capabilities=schema.SessionCapabilities(resume=resume),
            ),
            auth_methods=[schema.AuthMethodAgent(id="sso", name="Company sign-in")]
            if self.flags.auth
            else [],
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        self.note("authenticate", method=method_id)
        self.signed_in = True
        return schema.AuthenticateResponse()

    def _check(self) -> None:
        if self.flags.auth == "method" and not self.signed_in:
            raise acp.RequestError.auth_required({"reason": "sign in first"})
        if self.flags.auth == "key" and os.environ.get("MODEL_KEY") != "right":
            raise acp.RequestError.auth_required(
                {"reason": f"the key {os.environ.get('MODEL_KEY')} is wrong"}
            )

    def _modes(self) -> schema.SessionModeState | None:
        if not self.flags.modes:
            return None
        listed = [schema.SessionMode(id=one, name=one.title()) for one in ("code", "plan")]
        return schema.SessionModeState(available_modes=listed, current_mode_id="code")

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> Any:
        self._check()
        if self.flags.hang == "session":
            await asyncio.Event().wait()
        if self.flags.bad_session:
            return {"sessionId": 7}
        id_ = f"session-{uuid4().hex[:8]}"
        self._keep(id_, {"prompts": [], "left": []})
        self.servers[id_] = mcp_servers or []
        self.note("new_session", session=id_, cwd=cwd, servers=[one.name for one in mcp_servers or []])
        return schema.NewSessionResponse(session_id=id_, modes=self._modes())

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> Any:
        self._check()
        kept = self._kept(session_id)
        self.servers[session_id] = mcp_servers or []
        self.note("load_session", session=session_id, cwd=cwd)
        for prompt in kept["prompts"]:
            await self.client.session_update(session_id, acp.update_agent_message_text(f"again: {prompt}"))
        return schema.LoadSessionResponse(modes=self._modes())

    async def resume_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> Any:
        self._check()
        self._kept(session_id)
        self.servers[session_id] = mcp_servers or []
        self.note("resume_session", session=session_id, cwd=cwd)
        return schema.ResumeSessionResponse(modes=self._modes())

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> Any:
        self.note("mode", mode=mode_id)
        return schema.SetSessionModeResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.note("cancel", session=session_id)
        self.cancelled.setdefault(session_id, asyncio.Event()).set()

    def _file(self, id_: str) -> Path:
        return Path("sessions") / f"{id_}.json"

    def _keep(self, id_: str, kept: dict[str, Any]) -> None:
        self._file(id_).parent.mkdir(exist_ok=True)
        self._file(id_).write_text(json.dumps(kept))

    def _kept(self, id_: str) -> dict[str, Any]:
        if not self._file(id_).exists():
            raise acp.RequestError.resource_not_found(id_)
        kept: dict[str, Any] = json.loads(self._file(id_).read_text())
        return kept

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> Any:
        text = next((one.text for one in prompt if one.type == "text"), "")
        shown = [one.model_dump(exclude_none=True, by_alias=True) for one in prompt if one.type != "text"]
        self.note("prompt", session=session_id, text=text, parts=shown)
        kept = self._kept(session_id)
        kept["prompts"].append(text)
        talk = json.loads(self.flags.talk.read_text()) if self.flags.talk else {}
        otherwise = talk.get(text, [["say", f"You said: {text}"]])
        steps = json.loads(text) if text.startswith("[") else kept["left"] or otherwise
        self.cancelled[session_id] = asyncio.Event()
        kept["left"] = []
        self._keep(session_id, kept)
        turn = Turn(self, session_id, len(kept["prompts"]))
        for number, step in enumerate(steps):
            try:
                await getattr(turn, step[0])(*step[1:])
            except Cancelled:
                kept["left"] = steps[number:]
                self._keep(session_id, kept)
                self.note("turn_cancelled", session=session_id)
                return schema.PromptResponse(stop_reason="cancelled")
        self.note("turn_ended", session=session_id)
        return schema.PromptResponse(stop_reason=turn.reason, usage=turn.usage)


class Turn:
    """The steps of one prompt."""

    def __init__(self, agent: ScriptedAgent, id_: str, prompts: int) -> None:
        self.agent = agent
        self.id = id_
        self.prompts = prompts
        self.reason: Any = "end_turn"
        self.usage: Any = None

    async def _send(self, update: Any) -> None:
        await self.agent.client.session_update(self.id, update)

    async def say(self, text: str, message_id: str | None = None) -> None:
        update = acp.update_agent_message_text(text)
        update.message_id = message_id
        await self._send(update)

    async def think(self, text: str) -> None:
        await self._send(acp.update_agent_thought_text(text))

    async def picture(self, data: str) -> None:
        await self._send(acp.update_agent_message(acp.image_block(data, "image/png")))

    async def plan(self, *entries: list[str]) -> None:
        listed = [acp.plan_entry(text, status=status) for text, status in entries]  # type: ignore[arg-type]
        await self._send(acp.update_plan(listed))

    async def tool(self, id_: str, title: str, kind: Any, raw_input: Any = None) -> None:
        await self._send(acp.start_tool_call(id_, title, kind=kind, status="pending", raw_input=raw_input))

    async def tool_update(self, id_: str, status: Any, text: str = "") -> None:
        content = [acp.tool_content(acp.text_block(text))] if text else None
        await self._send(acp.update_tool_call(id_, status=status, content=content))

    async def ask(self, id_: str, title: str, kind: Any = None, raw_input: Any = None, *kinds: str) -> None:
        await self.say(f"{title}: {await self._permission(id_, title, kind, raw_input, kinds)}. ")

    async def ask_silently(self, id_: str, title: str, kind: Any, raw_input: Any) -> None:
        await self._permission(id_, title, kind, raw_input, ())

    async def ask_all(self, *asked: list[Any]) -> None:
        found = await asyncio.gather(*[self._permission(one[0], one[1], one[2], one[3], ()) for one in asked])
        for one, outcome in zip(asked, found, strict=True):
            await self.say(f"{one[1]}: {outcome}. ")

    async def _permission(self, id_: str, title: str, kind: Any, raw_input: Any, kinds: Any) -> str:
        call = schema.ToolCallUpdate(tool_call_id=id_, title=title, kind=kind, raw_input=raw_input)
        options = [
            schema.PermissionOption(option_id=f"{one}!", name=one, kind=one)
            for one in kinds or ("allow_always", "allow_once", "reject_once", "reject_always")
        ]
        answer = await self.agent.client.request_permission(
            session_id=self.id, tool_call=call, options=options
        )
        outcome = answer.outcome
        chosen = "cancelled" if outcome.outcome == "cancelled" else outcome.option_id
        self.agent.note("permission", title=title, outcome=chosen)
        if chosen == "cancelled" and self.agent.cancelled[self.id].is_set():
            raise Cancelled
        if chosen == "cancelled":
            await asyncio.wait_for(self.agent.cancelled[self.id].wait(), 60)
            raise Cancelled
        return str(chosen)

    async def request(self, method: str, params: Any) -> None:
        """Ask the client for something, and say what came."""
        try:
            await self.agent.client._conn.send_request(method, params)
        except acp.RequestError as error:
            await self.say(f"{method}: {error.code}. ")

    async def many_requests(self, count: int) -> None:
        call = schema.ToolCallUpdate(tool_call_id="t", title="t")
        asked = [
            self.agent.client.request_permission(session_id=self.id, tool_call=call, options=[])
            for _ in range(count)
        ]
        await asyncio.gather(*asked)

    async def mcp(self, name: str, arguments: Any) -> None:
        """Call a tool of the run's server, and say what it answered."""
        params = {"name": name, "arguments": arguments}
        (server,) = self.agent.servers[self.id]
        answer = await asyncio.to_thread(_mcp, server, "tools/call", params)
        result = answer.get("result") or {"content": [{"text": json.dumps(answer["error"])}]}
        await self.say(result["content"][0]["text"])

    async def mcp_list(self) -> None:
        listed = [
            await asyncio.to_thread(_mcp, server, "tools/list", {}) for server in self.agent.servers[self.id]
        ]
        names = [tool["name"] for answer in listed for tool in answer["result"]["tools"]]
        await self.say(f"tools: {', '.join(names) or 'none'}")

    async def raw(self, *messages: Any) -> None:
        for message in messages:
            await self.line(json.dumps(message))

    async def update(self, update: Any) -> None:
        params = {"sessionId": self.id, "update": update}
        await self.raw({"jsonrpc": "2.0", "method": "session/update", "params": params})

    async def line(self, text: str, count: int = 1) -> None:
        for _ in range(count):
            self.agent.client._conn._transport._sender._writer.write(text.encode() + b"\n")
            await self.agent.client._conn._transport._sender._writer.drain()

    async def flood(self, size: int) -> None:
        """Say pieces without an end."""
        while True:
            await self.say("x" * size)

    async def thoughts(self) -> None:
        while True:
            await self.think("hm")

    async def huge(self, size: int) -> None:
        await self.line('{"jsonrpc": "2.0", "method": "x", "params": "' + "y" * size + '"}')

    async def wait(self) -> None:
        await self.agent.cancelled[self.id].wait()
        raise Cancelled

    async def ignore_cancel(self) -> None:
        await asyncio.Event().wait()

    async def gate(self, name: str) -> None:
        """Wait until there is a file of this name in the folder."""
        self.agent.note("at_gate", gate=name)
        while not Path(name).exists():
            await asyncio.sleep(0.02)

    async def child(self) -> None:
        """Start a program in a session of its own, which outlives the agent."""
        program = [sys.executable, "-c", "import time; time.sleep(1000)"]
        self.agent.note("child", child=subprocess.Popen(program, start_new_session=True).pid)

    async def write(self, name: str, text: str) -> None:
        Path(name).write_text(text)

    async def errors(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    async def die(self, code: int) -> None:
        os._exit(code)

    async def fail(self, text: str) -> None:
        raise acp.RequestError(-32603, text)

    async def variable(self, name: str) -> None:
        await self.say(f"{name}={os.environ.get(name)}")

    async def model(self, service: str) -> None:
        """Ask the model to which the variables lead, and say what it answered."""
        await self.say(await asyncio.to_thread(_model, service))

    async def place(self) -> None:
        await self.say(str(Path.cwd()))

    async def count(self) -> None:
        await self.say(f"prompts: {self.prompts}")

    async def forget(self) -> None:
        self.agent._file(self.id).unlink()

    async def end(self, reason: str) -> None:
        self.reason = reason

    async def spend(self, *numbers: int) -> None:
        self.usage = schema.Usage(input_tokens=numbers[0], output_tokens=numbers[1], total_tokens=numbers[2])


def _model(service: str) -> str:
    url, key = os.environ[f"{service}_BASE_URL"], os.environ[f"{service}_API_KEY"]
    body = {"model": "default", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
    path = "/v1/messages" if service == "ANTHROPIC" else "/chat/completions"
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}", "x-api-key": key}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url + path, json.dumps(body).encode(), headers)) as answer:
        found = json.loads(answer.read())
    text: str = (
        found["content"][0]["text"] if "content" in found else found["choices"][0]["message"]["content"]
    )
    return text


def _mcp(server: Any, method: str, params: Any) -> dict[str, Any]:
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    if isinstance(server, schema.McpServerStdio):
        env = os.environ | {one.name: one.value for one in server.env}
        done = subprocess.run(
            [server.command, *server.args], input=message + b"\n", env=env, capture_output=True, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {one.name: one.value for one in server.headers}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(server.url, message, headers)) as answer:
        body = answer.read().decode()
    lines = [line[5:] for line in body.splitlines() if line.startswith("data:")]
    return dict(json.loads(lines[-1] if lines else body))


def main() -> None:
    flags = FLAGS.parse_args()
    for number in range(flags.banner):
        print(f"Welcome! {number}", flush=True)
    if flags.die_at_start:
        print(flags.die_at_start, file=sys.stderr, flush=True)
        sys.exit(3)
    asyncio.run(acp.run_agent(ScriptedAgent(flags), use_unstable_protocol=flags.resume == "works"))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
