"""The channel of Matrix accounts."""
