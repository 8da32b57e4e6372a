"""Sealing: content encrypted before it reaches the database, opened when it is read. Start at tx.py."""
