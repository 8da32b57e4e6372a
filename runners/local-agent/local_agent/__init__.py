"""A complete agent that uses only the Host API."""
