"""Answers with an app of Tbox."""
