"""Answers with a flow of Langflow."""
