"""Fixtures that tests of every package may ask for."""

from support.databases import database, database_url, postgres_server, postgres_template

__all__ = ["database", "database_url", "postgres_server", "postgres_template"]
