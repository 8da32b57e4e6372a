"""Answers with an agent or the knowledge bases of WeKnora."""
