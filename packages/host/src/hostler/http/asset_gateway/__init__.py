"""The asset gateway: `/mcp`, where a service outside reaches the run that it works for, with its token."""
