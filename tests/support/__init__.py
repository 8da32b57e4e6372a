"""Shared fixtures and fakes."""
