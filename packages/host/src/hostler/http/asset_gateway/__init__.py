"""The asset gateway: `/mcp`, where an external service reaches its run with a run token."""
