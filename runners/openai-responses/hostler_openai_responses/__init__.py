"""Answers with a model and tools of the OpenAI Responses API."""
