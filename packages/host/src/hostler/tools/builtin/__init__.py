"""Built-in tools: commands in a sandbox, files of working folders, web requests."""
