"""The Host API for runners. The gate checks each call; the executor carries it out and journals it."""
