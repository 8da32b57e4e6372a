"""The channel of apps of Lark and Feishu."""
