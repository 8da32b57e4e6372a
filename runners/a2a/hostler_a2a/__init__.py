"""Answers with an agent that speaks A2A."""
