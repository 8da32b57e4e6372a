"""Secrets: what references in the configuration stand for. Used where one is needed, as late as possible."""
