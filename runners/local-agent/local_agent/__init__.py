"""A complete agent built on nothing but the Host API."""
