"""Model services, each behind the one port of `port.py`."""
