"""The channel of LINE Official Accounts."""
