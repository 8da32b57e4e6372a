"""Answers with a graph on a LangGraph server."""
