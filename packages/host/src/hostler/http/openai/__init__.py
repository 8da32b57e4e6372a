"""OpenAI's interfaces: every agent is a model of Chat Completions and of Responses."""
