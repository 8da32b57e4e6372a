"""Values of A2A 1.0 as they are on the wire: the JSON form of its messages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from hostler_protocol._base import Lenient, Sparse, always

PROTOCOL_VERSION = "1.0"
MAX_PARTS = 1_000
"""Parts of one message that a client sends."""

TaskState = Literal[
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]


# -- what a client sends -----------------------------------------------------------------------------------


class Given(Lenient, rename="camel"):
    """A value that a client sends. Unknown members are ignored, as the protocol asks for."""


class GivenPart(Given):
    """A part of a message. One of `text`, `raw` (base64), `url` and `data` is its content."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = msgspec.UNSET
    metadata: dict[str, Any] | None = None
    filename: str | None = None
    media_type: str | None = None


class GivenMessage(Given):
    """A message of a client."""

    message_id: str
    parts: Annotated[list[GivenPart], msgspec.Meta(min_length=1, max_length=MAX_PARTS)]
    role: str | None = None
    context_id: str | None = None
    task_id: str | None = None
    metadata: dict[str, Any] | None = None


class Authentication(Given):
    """How a receiver of notifications knows the sender: an Authorization header."""

    scheme: str = ""
    credentials: str | None = None


class GivenPushConfig(Given):
    """Where changes of a task are sent to."""

    url: str
    id: str | None = None
    task_id: str | None = None
    token: str | None = None
    authentication: Authentication | None = None


class Configuration(Given):
    """How a message is answered."""

    history_length: int | None = None
    return_immediately: bool | None = None
    task_push_notification_config: GivenPushConfig | None = None


class SendMessage(Given):
    """`SendMessage` and `SendStreamingMessage`."""

    message: GivenMessage
    configuration: Configuration | None = None


class GetTask(Given):
    """`GetTask`."""

    id: str
    history_length: int | None = None


class TaskQuery(Given):
    """`GetTask`, as a query."""

    history_length: int | None = None


class ListTasks(Given):
    """`ListTasks`. `status_timestamp_after`: RFC 3339."""

    context_id: str | None = None
    status: TaskState | None = None
    page_size: int | None = None
    page_token: str | None = None
    history_length: int | None = None
    status_timestamp_after: str | None = None
    include_artifacts: bool | None = None


class NamedTask(Given):
    """`CancelTask` and `SubscribeToTask`."""

    id: str


class NamedPushConfig(Given):
    """`GetTaskPushNotificationConfig` and `DeleteTaskPushNotificationConfig`."""

    task_id: str
    id: str


class ListPushConfigs(Given):
    """`ListTaskPushNotificationConfigs`."""

    task_id: str
    page_size: int | None = None
    page_token: str | None = None


class PushConfigQuery(Given):
    """`ListTaskPushNotificationConfigs`, as a query."""

    page_size: int | None = None
    page_token: str | None = None


# -- what the host answers ---------------------------------------------------------------------------------


class Wire(Sparse, rename="camel"):
    """A value on the wire. Absent means the default."""


class Part(Wire):
    """A part of a message or an artifact."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = msgspec.UNSET
    metadata: dict[str, Any] | None = None
    filename: str | None = None
    media_type: str | None = None


class Message(Wire):
    """A message of the client (in a history), or of the agent (in a status)."""

    message_id: str
    role: Literal["ROLE_USER", "ROLE_AGENT"]
    parts: list[Part]
    task_id: str | None = None
    context_id: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] = []


class TaskStatus(Wire):
    """Where a task is."""

    state: TaskState
    message: Message | None = None
    timestamp: str | None = None


class Artifact(Wire):
    """Something that a task has made: a message of the agent, or a file."""

    artifact_id: str
    parts: list[Part]
    name: str | None = None
    metadata: dict[str, Any] | None = None


class Task(Wire):
    """A run."""

    id: str
    context_id: str | None
    status: TaskStatus
    artifacts: list[Artifact] = []
    history: list[Message] = []
    metadata: dict[str, Any] | None = None


class TaskStatusUpdate(Wire):
    """A task is somewhere else."""

    task_id: str
    context_id: str | None
    status: TaskStatus
    metadata: dict[str, Any] | None = None


class TaskArtifactUpdate(Wire):
    """A new artifact, or with `append` more of one."""

    task_id: str
    context_id: str | None
    artifact: Artifact
    append: bool = False
    last_chunk: bool = False
    metadata: dict[str, Any] | None = None


class StreamEvent(Wire):
    """One event of a stream; also a notification. One of its members is set."""

    task: Task | None = None
    status_update: TaskStatusUpdate | None = None
    artifact_update: TaskArtifactUpdate | None = None


class SentTask(Wire):
    """The answer to `SendMessage`."""

    task: Task


class TaskPage(Wire):
    """A page of `ListTasks`."""

    tasks: list[Task] = always([])
    next_page_token: str = always("")
    page_size: int = always(0)
    total_size: int = always(0)


class PushConfig(Wire):
    """Where changes of a task are sent to."""

    id: str
    task_id: str
    url: str
    token: str | None = None
    authentication: Authentication | None = None


class PushConfigPage(Wire):
    """A page of `ListTaskPushNotificationConfigs`."""

    configs: list[PushConfig] = always([])
    next_page_token: str = always("")


encode = msgspec.json.Encoder().encode
