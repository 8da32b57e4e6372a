"""Answers with an agent of DeerFlow."""
