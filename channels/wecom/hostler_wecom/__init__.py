"""A self-built application of WeCom (WeChat Work) as a channel."""
