"""The host: it accepts events, executes runs and publishes their results.

Start with `Host` in host/host.py; host/parts.py and host/run_parts.py build its parts. docs/tour.md follows
one event through the code, docs/rooms.md describes the rooms.
"""
