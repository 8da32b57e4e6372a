"""Model services, each behind the port in `port.py`. Used by calls and the host."""
