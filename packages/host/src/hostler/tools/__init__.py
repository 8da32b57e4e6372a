"""Tools behind one port: MCP, OpenAPI, built-in tools, skills, knowledge and the tools of plugins."""
