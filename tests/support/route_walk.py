"""Every HTTP route and every kind of key: who is let in. The table behind docs/gates.md, and its test.

The routes are those of the application, each with the right that it declares. What a kind of key may do is
written here once more, by hand: a right that is added has to be decided here before the test passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler.http.auth import RIGHTS
from hostler.http.endpoint import ANY_KEY, Endpoint

WIDE = {"admin": RIGHTS - {"installation"}, "installation": RIGHTS}
"""Rights that hold others."""
REFUSED = {
    "none": "no key and no session",
    "wrong": "a key that there is not",
    "revoked": "a key that was revoked",
    "expired": "a key whose time is over",
    "run token": "the token of a run at work, which is good for its own MCP server",
    "key elsewhere": "a valid key in the query, in a cookie, in X-API-Key, or as Basic authentication",
    "removed member's key": "the personal key of a member who was removed",
    "personal key of no provider": "the personal key of a person whose identity provider has no entry",
    "removed member's session": "the session of a member who was removed",
    "session over": "a session that was ended",
    "session expired": "a session whose hours are over",
    "session idle": "a session that was not used for its minutes",
    "session of no provider": "a session of an identity provider that the configuration has no more",
    "session as key": "the token of a valid session, sent as a key",
    "no CSRF": "a valid session, whose write lacks X-CSRF-Token",
    "other origin": "a valid session, whose write has the Origin of another site",
    "other origin reads": "a valid session, with the Origin of another site, whatever `cors` lists",
}
"""Kinds that no route with a right lets in."""
ONLY_WRITES = frozenset({"no CSRF", "other origin"})
"""Those are refused for writes."""
FORBIDDEN = ONLY_WRITES | {"other origin reads"}
"""Those get 403: the session is one."""
ALONE = tuple(sorted(RIGHTS))
"""Each right as the only one of a key."""


@dataclass(frozen=True)
class Expected:
    """Who is let in to one route."""

    open: bool
    """Nobody needs a key."""
    people: bool
    """People with a session alone."""
    rights: frozenset[str]
    """The rights each of which is enough."""

    def lets_in(self, kind: str) -> bool:
        """Whether a kind of `REFUSED`, or a key with this right alone, is let in."""
        return self.open or kind in self.rights


def expected(endpoint: Endpoint) -> Expected:
    """Who is let in to a route, by what it declares."""
    right = endpoint.right
    if right == ANY_KEY:
        return Expected(open=False, people=False, rights=RIGHTS)
    rights = {right} | {wide for wide, held in WIDE.items() if right in held} if right else set()
    return Expected(right is None and not endpoint.signed_in, endpoint.signed_in, frozenset(map(str, rights)))


NARROW = {
    "post_event": "`Orchestrator.accept` fills in agent and conversation, and refuses others",
    "list_runs": "the query is filled in",
    "get_run": "the path is checked",
    "get_journal": "the path is checked",
    "stream_run": "the path is checked",
    "stream_conversation": "the path is checked, the query is filled in",
    "stream_workspace": "the query is filled in",
    "list_steering": "the path is checked",
    "cancel_run": "the path is checked; its body names nothing",
    "get_history": "the path is checked",
    "search_history": "the path is checked",
    "get_state": "the path is checked; the state of other agents is left out",
    "upload_artifact": "the query is filled in",
    "get_artifact": "the path is checked",
    "get_artifact_content": "the path is checked",
    "list_pauses": "`host.pauses` shows those of its own runs",
    "get_pause": "`host.pauses` shows those of its own runs",
    "act_on_pause": "`host.pauses` decides those of its own runs",
    "act_on_conversation": "`host.pauses` decides those of its own runs",
    "cancel_pause": "`host.pauses` cancels those of its own runs",
    "send_to_chat": "the path is checked, the chat is the conversation; runs by `find_run`",
    "resume_chat": "the path is checked; runs by `find_run`",
    "stop_chat": "the path is checked",
    "run_agent": "the path is checked, the thread is the conversation; runs within it",
    "connect_agent": "the path is checked; runs within it",
    "stop_thread": "the path is checked; runs within it",
    **dict.fromkeys(
        ("create_thread_run", "stream_thread_run", "wait_for_thread_run"),
        "the path is checked, the thread is the conversation; assistant and runs within it",
    ),
    **dict.fromkeys(
        ("get_thread", "get_thread_state", "get_thread_history", "list_thread_runs"),
        "the path is checked; runs of its agent alone",
    ),
    **dict.fromkeys(
        (
            "get_thread_run",
            "join_thread_run",
            "join_thread_run_stream",
            "wait_for_run_of_thread",
            "cancel_thread_run",
        ),
        "the path is checked; runs by `find_run`",
    ),
    "create_chat_completion": "model and conversation are checked, the conversation is filled in",
    "get_chat_completion": "runs by `find_run`",
    "create_response": "model, conversation and earlier responses are checked, the conversation is filled in",
    "get_response": "runs by `find_run`",
    "cancel_response": "runs by `find_run`",
    "list_input_items": "runs by `find_run`",
    "list_models": "its agent alone",
    "list_artifacts": "the conversation of the query, which is filled in",
    "stream_widget": "its own conversation, of the agent that the widget has",
    "get_model": "its agent alone",
    "list_agent_prompts": "its agent alone",
}
"""Routes that take front-end tokens, and what keeps them within agent and conversation. By hand: a route that
says `narrow` fails the test until it is decided here."""


def path_of(endpoint: Endpoint) -> str:
    """A path of the route, with parameters that name nothing."""
    path = endpoint.path
    for name in endpoint.parameters:
        path = path.replace(f"{{{name}}}", "no-such-thing")
    return path


def rows(endpoints: Sequence[Endpoint]) -> list[list[str]]:
    """The table: method, path, and who is let in."""
    found = []
    for endpoint in endpoints:
        who = expected(endpoint)
        if who.open:
            let_in = "everybody"
        elif who.people:
            let_in = "people with a session"
        elif endpoint.right == ANY_KEY:
            let_in = "every key; the route says for what"
        else:
            own = [f"`{endpoint.right}`"]
            let_in = ", ".join(own + [f"`{right}`" for right in sorted(who.rights - {str(endpoint.right)})])
        if endpoint.narrow is not None:
            let_in += "; front-end tokens"
        found.append([endpoint.method, f"`{endpoint.path}`", let_in])
    return found
