"""The channel of Discord bots."""
