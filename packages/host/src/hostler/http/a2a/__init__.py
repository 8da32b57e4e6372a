"""A2A 1.0: agents for other agents, at `/a2a/{agent}`, by JSON-RPC and by HTTP+JSON. A task is a run."""
