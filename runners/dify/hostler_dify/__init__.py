"""Answers with an app of Dify."""
