"""Processes that can hurt nobody: plugins, and commands that agents run. `port.py` is what others use."""
