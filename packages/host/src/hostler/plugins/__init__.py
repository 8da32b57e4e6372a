"""Start, contain, speak with, watch and end plugin processes. `supervisor.py` is the entry."""
