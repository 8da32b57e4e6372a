"""The Host API, which runners call: the gate checks each call, the executor carries it out and journals it."""
