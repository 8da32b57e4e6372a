"""The host: events in, runs, results out, and the facts.

Start with `Host` in host/host.py, which builds everything. docs/tour.md follows one event through the code,
docs/rooms.md says what is where.
"""
