"""Databases: named statements, migrations, the writer that commits in groups. Start at database.py."""
