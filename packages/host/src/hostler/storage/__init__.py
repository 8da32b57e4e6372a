"""The database and all durable data: SQL, migrations and one store per kind of data."""
