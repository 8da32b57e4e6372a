"""MCP at `/mcp` for holders of API keys: agents as tools, their runs as calls and tasks.

The same address serves holders of run tokens: `http/asset_gateway`, which shares `messages`.
"""
