"""Start, contain, talk to, monitor and end plugin processes. `supervisor.py` is the entry point."""
