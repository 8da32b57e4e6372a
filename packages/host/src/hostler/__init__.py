"""The host: events in, runs, results out, and the facts.

Start with `host.Host`, which builds everything; docs/tour.md follows one event through the code.
"""
