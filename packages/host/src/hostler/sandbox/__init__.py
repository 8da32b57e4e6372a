"""Confine processes: plugins, and commands that agents run. Other rooms use `port.py`."""
