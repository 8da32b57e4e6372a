"""Tools of MCP servers, over the official SDK. `source.py` is what the host sees of them.

Nothing but `connection.py` and the two transports beside it imports the SDK: that takes a second, and only
hosts with MCP servers need it.
"""
