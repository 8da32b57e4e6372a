"""Tools of MCP servers, over the official SDK. `source.py` is the interface to the host.

Only `sessions.py` and the modules that it imports import the SDK: that takes a second, and only hosts with
MCP servers need it.
"""
