"""Types of the protocol that runners read and build: messages, model answers, transcripts, resources."""

from __future__ import annotations

from hostler_protocol.calls import (
    KnowledgeItem,
    ModelChunk,
    ModelDelta,
    ModelReply,
    RerankReply,
    RetrieveReply,
    ToolCallDelta,
    ToolDetail,
)
from hostler_protocol.content import (
    ArtifactElement,
    ArtifactRef,
    Content,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    FunctionCall,
    FunctionSpec,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    Message,
    ModelMessage,
    ProviderData,
    Role,
    TextElement,
    ToolCall,
    Usage,
    text_of,
)
from hostler_protocol.errors import ErrorCode
from hostler_protocol.events import Actor, AgentRunContext, Conversation, EventRef, Input, Subject
from hostler_protocol.grants import ModelResource, Resources, ToolResource
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.manifest import NOT_CHOSEN, Capability, FormItemType, Permissions
from hostler_protocol.pausing import Decision, FormField, PendingCall
from hostler_protocol.runs import JournalRecord, Page, RunRecord, SteeringInputItem, TranscriptItem
from hostler_sdk.inputs import RunInput, SteeringItem

__all__ = [
    "MAX_PAGE_ITEMS",
    "NOT_CHOSEN",
    "Actor",
    "AgentRunContext",
    "ArtifactElement",
    "ArtifactRef",
    "Capability",
    "Content",
    "ContentElement",
    "Conversation",
    "Decision",
    "ErrorCode",
    "EventRef",
    "FileBase64Element",
    "FileUrlElement",
    "FormField",
    "FormItemType",
    "FunctionCall",
    "FunctionSpec",
    "ImageBase64Element",
    "ImageUrl",
    "ImageUrlElement",
    "Input",
    "JournalRecord",
    "KnowledgeItem",
    "Message",
    "ModelChunk",
    "ModelDelta",
    "ModelMessage",
    "ModelReply",
    "ModelResource",
    "Page",
    "PendingCall",
    "Permissions",
    "ProviderData",
    "RerankReply",
    "Resources",
    "RetrieveReply",
    "Role",
    "RunInput",
    "RunRecord",
    "SteeringInputItem",
    "SteeringItem",
    "Subject",
    "TextElement",
    "ToolCall",
    "ToolCallDelta",
    "ToolDetail",
    "ToolResource",
    "TranscriptItem",
    "Usage",
    "text_of",
]
