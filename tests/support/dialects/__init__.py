"""Clients of the standard interfaces: each follows a run as its official client does."""
