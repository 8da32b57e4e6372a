"""Tools behind a port: those that plugins offer."""
