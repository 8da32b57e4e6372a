"""An agent's stored configuration, with the field names of configuration files and of HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from hostler.domain.action_actors import actor_mistake
from hostler.domain.approvers import ApprovalRule, ToolApprovalPolicy
from hostler.domain.budget_limits import Budget
from hostler.domain.channels import ChatPlace
from hostler.domain.pauses import OnMessage
from hostler.domain.prompts import Prompts
from hostler.domain.quotas import AgentQuota
from hostler.domain.record import Record
from hostler.domain.steering import Leftover
from hostler.domain.worker_labels import check_labels
from hostler_protocol._base import Strict
from hostler_protocol.grants import StateScope
from hostler_protocol.limits import MAX_INTEGER

ScopeType = Literal["agent", "bot", "workspace", "channel", "conversation", "global"]
OnBusy = Literal["steer", "queue", "reject", "interrupt", "parallel"]
OnCrash = Literal["resume", "restart", "fail"]
MAX_DEBOUNCE_SECONDS = 60.0
"""After a longer silence a person waits for the answer instead of writing the next message."""


class Rate(Strict):
    """Host API calls per second on average. A burst may have as many calls as one second allows."""

    calls_per_second: float | None = None


class ResourcePolicy(Strict):
    """Resources that the agent's runs may use. None: those that the runner config selects (skills: all).

    `allowed_agents`: names and patterns of the agents that `run.create` may start; None: of none.
    `allow_cross_account_history`: whether the history of a private chat of a channel has, too, that of the
    private chats that the person's other accounts have with the agent.
    `allow_schedules`: whether its runs may make schedules for their own conversations (`schedule.create`).
    `allow_client_tools`: whether its events may bring tools that their sender carries out (`input.tools`).
    `allowed_actions`: names and patterns of the platform actions that its runs may have carried out; None: of
    none. `actions_without_approval`: the dangerous ones among them that need no approval. `actions_anywhere`:
    whether their targets may be outside of the run's own chat. `action_actors`: by name or pattern of an
    action who may cause it: `*`, `user:NAME` (who sent the event), `role:NAME` (of who sent it, or of the
    person by the channel's entry) or `person:CHANNEL/ID`; the best match applies, and an action without a
    match is open to all.
    """

    allowed_model_ids: list[str] | None = None
    allowed_tool_names: list[str] | None = None
    allowed_kb_ids: list[str] | None = None
    allowed_skill_names: list[str] | None = None
    allowed_agents: list[str] | None = None
    allow_plugin_storage: bool = True
    allow_workspace_storage: bool = False
    allow_cross_conversation_history: bool = False
    allow_cross_account_history: bool = False
    allow_client_tools: bool = True
    allow_schedules: bool = False
    allowed_actions: list[str] | None = None
    actions_without_approval: list[str] = []
    actions_anywhere: bool = False
    action_actors: dict[str, list[str]] = {}
    tool_approval: dict[str, ApprovalRule | ToolApprovalPolicy] = {}
    budget: Budget = Budget()
    rate: Rate = Rate()
    quota: AgentQuota = AgentQuota()

    def __post_init__(self) -> None:
        for action, subjects in self.action_actors.items():
            for subject in subjects:
                if (mistake := actor_mistake(subject)) is not None:
                    raise ValueError(f"action_actors[{action}]: {mistake}")


class StatePolicy(Strict):
    """The state scopes that runs may use.

    `actor_across_accounts`: the scope `actor` of a channel's person is that of the subject to which their
    account is bound, else it is that of the account.
    """

    enable_state: bool = True
    state_scopes: list[StateScope] = msgspec.field(default_factory=lambda: ["conversation", "actor"])
    actor_across_accounts: bool = False


class DeliveryPolicy(Strict):
    """How results are delivered to people. `max_message_size` in characters.

    `ask_in`: chats, each `CHANNEL/CHAT` or with its thread, in which its approvals and questions are shown
    besides the one of the conversation, whatever its runs came from.
    """

    enable_streaming: bool = True
    enable_reply: bool = True
    max_message_size: int | None = None
    ask_in: list[str | ChatPlace] = []


class Concurrency(Strict):
    """How an event is handled whose lane is busy.

    `debounce` (seconds, at most 60): messages that one person sends within that time of each other become one
    turn. `max_runs`: runs of the agent at once, in each host process. `on_pause`: how a message is handled
    that arrives while the run waits for a person. `leftover`: how messages are handled that a run absorbed
    but had not read when it ended.
    """

    on_busy: OnBusy = "steer"
    debounce: Annotated[float, msgspec.Meta(ge=0, le=MAX_DEBOUNCE_SECONDS)] = 0.0
    max_runs: Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)] | None = None
    on_pause: OnMessage = "hold"
    leftover: Leftover = "requeue"


class Recovery(Strict):
    """How an active run is recovered after a crash.

    `on_crash` None: `resume` if the runner is resumable, else `fail`.
    """

    on_crash: OnCrash | None = None
    max_attempts: int = 3


class Scope(Strict):
    """Which events an agent receives; `id` names the bot, channel, conversation or workspace."""

    type: ScopeType = "workspace"
    id: str | None = None


class AgentSpec(Strict):
    """The whole configuration of one agent. Equal specs have equal digests.

    `allow_questions` false: a run's question is answered `denied` at once, for agents that run unattended.
    `idle_timeout`: seconds without a result or a call after which a run is ended. `worker_labels`: its runs
    are worked on by a remote worker that has all of these labels, and wait for one; none: by the host itself.
    `prompts`: messages that people pick instead of writing them.
    """

    name: str
    runner: str
    config: dict[str, Any] = {}
    resource_policy: ResourcePolicy = ResourcePolicy()
    state_policy: StatePolicy = StatePolicy()
    delivery_policy: DeliveryPolicy = DeliveryPolicy()
    allow_questions: bool = True
    idle_timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    concurrency: Concurrency = Concurrency()
    recovery: Recovery = Recovery()
    event_types: list[str] = msgspec.field(default_factory=lambda: ["message.received"])
    filters: list[str] = []
    scope: Scope = Scope()
    priority: Annotated[int, msgspec.Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)] = 0
    enabled: bool = True
    metadata: dict[str, Any] = {}
    worker_labels: list[str] = []
    prompts: Prompts = []

    def __post_init__(self) -> None:
        check_labels(self.worker_labels)


class Agent(Record):
    """One immutable version of an agent."""

    workspace_id: str
    agent_id: str
    version: int
    spec: AgentSpec
    made_at: int = 0
    """When this version was made: UTC epoch milliseconds."""
    made_by: str | None = None
    """The subject that made it; None for versions of before this was recorded."""

    @property
    def name(self) -> str:
        """The name by which people and configuration refer to the agent."""
        return self.spec.name
