"""Answers with a workflow of n8n."""
