"""The database and everything durable: SQL, migrations and one store per kind of fact."""
