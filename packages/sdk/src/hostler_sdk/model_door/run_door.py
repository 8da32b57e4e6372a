"""The door of one run: its requests become calls of the run."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from hostler_protocol.calls import (
    CountTokensReply,
    EmbedReply,
    ModelChunk,
    ModelDelta,
    ModelReply,
    ToolCallDelta,
)
from hostler_protocol.content import FunctionSpec, ModelMessage
from hostler_protocol.events import AgentRunContext
from hostler_protocol.ids import digest
from hostler_sdk.errors import HostError, NotFound, RuntimeFailure
from hostler_sdk.host_api.port import HostCalls, stated
from hostler_sdk.model_door.answer_memory import AnswerMemory
from hostler_sdk.model_door.chat_answer import AnswerHead, ChatChunks, completion, event
from hostler_sdk.model_door.chat_request import read_chat
from hostler_sdk.model_door.embeddings import embedding_list, read_embeddings
from hostler_sdk.model_door.exchange import STREAM_TYPE, DoorAnswer, DoorRequest, error_answer, json_answer
from hostler_sdk.model_door.limits import MAX_REQUESTS
from hostler_sdk.model_door.mcp import PATH as MCP_PATH
from hostler_sdk.model_door.mcp import RunTools
from hostler_sdk.model_door.messages_answer import CallIds, MessageEvents, whole_message
from hostler_sdk.model_door.messages_request import asked_again, read_messages
from hostler_sdk.model_door.models import GrantedModels
from hostler_sdk.model_door.problems import DoorError, refused
from hostler_sdk.model_door.reading import Json, decode_body
from hostler_sdk.model_door.response_answer import ResponseEvents, whole_response
from hostler_sdk.model_door.response_request import joined, read_response
from hostler_sdk.model_door.response_store import ResponseStore

PREFIX = "/v1"
_ENDS_THE_RUN = frozenset({"cancelled", "deadline_exceeded"})
"""Codes of errors after which no other model is asked."""
logger = logging.getLogger("hostler_sdk")
_chunks = msgspec.json.Decoder(ModelChunk)


class _ModelCall(NamedTuple):
    """What is asked of a model, whichever it is."""

    name: str
    messages: list[ModelMessage]
    tools: list[FunctionSpec]
    extra_args: Json


class _Begun(NamedTuple):
    """A stream whose first piece has come: from here on nothing else can be asked."""

    model_id: str
    pieces: AsyncGenerator[ModelChunk | ModelReply]
    first: ModelChunk | ModelReply


class RunDoor:
    """Answers requests in the name of one run. `key`: by which they name it."""

    def __init__(self, given: AgentRunContext, host: HostCalls, key: str) -> None:
        self.run_id = given.run_id
        self.key = key
        self._host = host
        self._models = GrantedModels(given.resources.models, given.config)
        self._created = int(given.trigger.timestamp or 0)
        self._tools = RunTools(given.resources.tools, host)
        self._memory = AnswerMemory()
        self._responses = ResponseStore()
        self._asked: Counter[str] = Counter()
        self._requests = 0

    async def answer(self, request: DoorRequest) -> DoorAnswer:
        """Answer a request; refusals are answers too."""
        if self._requests >= MAX_REQUESTS:
            text = f"{MAX_REQUESTS} requests of this run are in progress; wait for one of them"
            return error_answer(DoorError(429, text, "rate_limit_exceeded", retry_after=1), request)
        self._requests += 1
        try:
            answer = await self._route(request)
        except DoorError as error:
            answer = error_answer(error, request)
        except HostError as error:
            answer = error_answer(self._refused(error), request)
        except Exception:
            # the top of a request's worker: the client gets an answer, the plugin's log the traceback
            logger.exception("the model door failed to answer %s %.100s", request.method, request.path)
            text = "the model door failed to answer this request; the plugin's log has the details"
            answer = error_answer(DoorError(500, text, "door_failed", retry=False), request)
        finally:
            self._requests -= 1
        if answer.pieces is not None:
            self._requests += 1
            answer.pieces = self._counted(answer.pieces)
            await anext(answer.pieces)  # begun, so that closing it unread ends the host call
        return answer

    async def _counted(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        try:
            async with aclosing(pieces):
                first = await anext(pieces)
                yield b""
                yield first
                async for piece in pieces:
                    yield piece
        finally:
            self._requests -= 1

    async def _route(self, request: DoorRequest) -> DoorAnswer:
        path = request.path.partition("?")[0].rstrip("/")
        if path == MCP_PATH:
            _check_method(request, "POST")
            return await self._tools.answer(request)
        path = path.removeprefix(PREFIX)
        posts = {
            "/chat/completions": self._chat,
            "/responses": self._response,
            "/embeddings": self._embeddings,
            "/messages": self._message,
            "/messages/count_tokens": self._count_tokens,
        }
        if path in posts:
            _check_method(request, "POST")
            return await posts[path](decode_body(request.body))
        group, _, name = path.removeprefix("/").partition("/")
        if group == "models":
            _check_method(request, "GET")
            return json_answer(self._found(name, request))
        if group == "responses" and name and "/" not in name:
            _check_method(request, "GET")
            return json_answer(self._responses.get(name))
        known = ", ".join(f"{PREFIX}{one}" for one in (*posts, "/models"))
        known += f", {MCP_PATH}"
        raise DoorError(404, f"there is no {request.path!r:.100} here; there are {known}", "unknown_url")

    def _found(self, name: str, request: DoorRequest) -> Json:
        """Return the list of models, or one of them by its name, which may hold slashes."""
        if request.is_anthropic:
            listed = self._models.listed_for_anthropic(self._created)
            whole: Json = {"first_id": None, "last_id": None, "has_more": False}
            if listed:
                whole |= {"first_id": listed[0]["id"], "last_id": listed[-1]["id"]}
        else:
            listed, whole = self._models.listed(self._created), {"object": "list"}
        if not name:
            return whole | {"data": listed}
        found = next((model for model in listed if model["id"] == name), None)
        if found is None:
            raise self._refused(NotFound(f"there is no model {name!r:.100}"))
        return found

    def _refused(self, error: HostError) -> DoorError:
        wrong = refused(error)
        if isinstance(error, NotFound):
            names = ", ".join(self._models.names) or "none"
            wrong.message += f"; the models of this run: {names}"
        return wrong

    def _id(self, prefix: str, body: Json) -> str:
        """Return the id of an answer: in each attempt of the run the same for the same request."""
        asked = digest(body)
        self._asked[asked] += 1
        return f"{prefix}{digest([self.run_id, asked, self._asked[asked]])[:32]}"

    # -- the interfaces ---------------------------------------------------------------------------

    async def _chat(self, body: Json) -> DoorAnswer:
        chat = read_chat(body)
        call = _ModelCall(chat.model, chat.messages, chat.tools, chat.extra_args)
        answer_id = self._id("chatcmpl-", body)
        if not chat.stream:
            model_id, reply = await self._invoke(call)
            return json_answer(
                completion(AnswerHead(answer_id, self._created, model_id, chat.functions), reply)
            )
        begun = await self._begin(call)
        head = AnswerHead(answer_id, self._created, begun.model_id, chat.functions)
        chunks = ChatChunks(head, include_usage=chat.include_usage)
        return _streamed(
            self._events(begun, chunks, chunks.last, lambda error: event({"error": error.fields}))
        )

    async def _response(self, body: Json) -> DoorAnswer:
        asked = read_response(body, self._responses.item)
        messages = joined(self._responses.messages(asked.previous), asked)
        call = _ModelCall(asked.model, messages, asked.tools, asked.extra_args)
        answer_id = self._id("resp_", body)

        def keep(whole: Json, reply: ModelReply) -> None:
            self._responses.add(whole, asked.previous, asked.messages, reply.message)

        if not asked.stream:
            model_id, reply = await self._invoke(call)
            whole = whole_response(AnswerHead(answer_id, self._created, model_id), asked.echo, reply)
            keep(whole, reply)
            return json_answer(whole)
        begun = await self._begin(call)
        events = ResponseEvents(AnswerHead(answer_id, self._created, begun.model_id), asked.echo)

        def last(reply: ModelReply) -> bytes:
            end = events.last(reply)
            keep(events.whole(reply), reply)
            return end

        return _streamed(self._events(begun, events, last, events.failed))

    async def _message(self, body: Json) -> DoorAnswer:
        asked = read_messages(body)
        call = _ModelCall(asked.model, asked.messages, asked.tools, asked.extra_args)
        answer_id = self._id("msg_", asked_again(body))
        ids = CallIds(asked.call_ids)
        if not asked.stream:
            model_id, reply = await self._invoke(call)
            head = AnswerHead(answer_id, self._created, model_id)
            return json_answer(whole_message(head, reply, thinks=asked.thinks, ids=ids))
        begun = await self._begin(call)
        head = AnswerHead(answer_id, self._created, begun.model_id)
        events = MessageEvents(head, thinks=asked.thinks, ids=ids)
        return _streamed(self._events(begun, events, events.last, events.failed))

    async def _count_tokens(self, body: Json) -> DoorAnswer:
        asked = read_messages(body)
        (model_id, *_) = self._models.candidates(asked.model, ["count_tokens"])
        params = stated(
            model_id=model_id, messages=self._memory.complete(asked.messages), tools=asked.tools or None
        )
        reply: CountTokensReply = await self._host.call("model.count_tokens", params)
        return json_answer({"input_tokens": reply.input_tokens})

    async def _embeddings(self, body: Json) -> DoorAnswer:
        asked = read_embeddings(body)
        (model_id, *_) = self._models.candidates(asked.model, ["embed"])
        vectors: list[list[float]] = []
        tokens = 0
        for batch in asked.batches:
            params = stated(model_id=model_id, inputs=batch, dimensions=asked.dimensions)
            reply: EmbedReply = await self._host.call("model.embed", params)
            vectors += reply.embeddings
            tokens += (reply.usage.input_tokens or 0) if reply.usage is not None else 0
        return json_answer(embedding_list(model_id, vectors, tokens, as_base64=asked.as_base64))

    # -- calls of models --------------------------------------------------------------------------

    async def _invoke(self, call: _ModelCall) -> tuple[str, ModelReply]:
        """Return a whole answer, and which model gave it."""
        candidates = self._models.candidates(call.name, ["invoke", "stream"])
        for place, model_id in enumerate(candidates):
            try:
                return model_id, await self._invoke_one(model_id, call)
            except HostError as error:
                if error.code in _ENDS_THE_RUN or place == len(candidates) - 1:
                    raise
        raise RuntimeFailure("no model was asked")  # there is always a candidate

    async def _invoke_one(self, model_id: str, call: _ModelCall) -> ModelReply:
        reply: ModelReply | None = None
        if self._models.operation(model_id, ["invoke", "stream"]) == "invoke":
            reply = await self._host.call("model.invoke", self._params(model_id, call))
        else:
            async with aclosing(self._stream_one(model_id, call)) as pieces:
                async for piece in pieces:
                    reply = piece if isinstance(piece, ModelReply) else reply
        if reply is None:
            raise RuntimeFailure("the stream ended without an answer")
        self._memory.add(reply.message)
        return reply

    async def _begin(self, call: _ModelCall) -> _Begun:
        """Begin a stream, and wait for its first piece: until then another model may be asked."""
        candidates = self._models.candidates(call.name, ["stream", "invoke"])
        for place, model_id in enumerate(candidates):
            pieces = self._stream_one(model_id, call)
            try:
                return _Begun(model_id, pieces, await anext(pieces))
            except HostError as error:
                if error.code in _ENDS_THE_RUN or place == len(candidates) - 1:
                    raise
        raise RuntimeFailure("no model was asked")  # there is always a candidate

    async def _stream_one(self, model_id: str, call: _ModelCall) -> AsyncGenerator[ModelChunk | ModelReply]:
        params = self._params(model_id, call)
        if self._models.operation(model_id, ["stream", "invoke"]) == "invoke":
            reply: ModelReply = await self._host.call("model.invoke", params)
            yield _as_chunk(reply)
            yield reply
            return
        async with self._host.stream("model.stream", params) as answer:
            async for chunk in answer:
                yield _chunks.decode(chunk)
            yield answer.reply

    def _params(self, model_id: str, call: _ModelCall) -> dict[str, Any]:
        return stated(
            model_id=model_id,
            messages=self._memory.complete(call.messages),
            tools=call.tools or None,
            extra_args=call.extra_args or None,
        )

    async def _events(
        self,
        begun: _Begun,
        events: ChatChunks | ResponseEvents | MessageEvents,
        last: Callable[[ModelReply], bytes],
        failed: Callable[[DoorError], bytes],
    ) -> AsyncGenerator[bytes]:
        """Yield the events of a stream. An error in its middle is an event, too."""
        try:
            async with aclosing(begun.pieces) as pieces:
                yield events.first()
                piece: ModelChunk | ModelReply | None = begun.first
                while piece is not None:
                    if isinstance(piece, ModelReply):
                        self._memory.add(piece.message)
                        yield last(piece)
                        return
                    if data := events.piece(piece):
                        yield data
                    piece = await anext(pieces, None)
        except HostError as error:
            yield failed(self._refused(error))
        except DoorError as error:
            yield failed(error)


def _check_method(request: DoorRequest, expected: str) -> None:
    if request.method != expected:
        text = f"{request.method:.20} is not for {request.path!r:.100}; use {expected}"
        raise DoorError(405, text, "method_not_allowed")


def _streamed(pieces: AsyncGenerator[bytes]) -> DoorAnswer:
    return DoorAnswer(headers=[STREAM_TYPE, ("cache-control", "no-cache")], pieces=pieces)


def _as_chunk(reply: ModelReply) -> ModelChunk:
    message = reply.message
    calls = [
        ToolCallDelta(index=index, id=call.id, name=call.function.name, arguments=call.function.arguments)
        for index, call in enumerate(message.tool_calls)
    ]
    delta = ModelDelta(content=message.content or None, reasoning=message.reasoning, tool_calls=calls)
    return ModelChunk(delta=delta)
