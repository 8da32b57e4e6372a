"""The Host API: what runners call. The gate checks each call, the executor carries it out and journals it."""
