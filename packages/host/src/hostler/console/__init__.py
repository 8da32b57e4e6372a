"""The console: pages for people, which use nothing but the HTTP API. Files only."""
