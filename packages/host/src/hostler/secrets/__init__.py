"""Secrets: resolve references in the configuration to values, as late as possible."""
