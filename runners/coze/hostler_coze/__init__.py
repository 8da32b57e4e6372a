"""Answers with a bot of Coze."""
