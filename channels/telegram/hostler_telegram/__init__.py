"""The channel of Telegram bots."""
