"""Streams over many runs: of a conversation, of a workspace, and several at once over one WebSocket."""
