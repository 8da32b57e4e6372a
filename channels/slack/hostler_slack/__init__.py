"""The channel of Slack apps."""
