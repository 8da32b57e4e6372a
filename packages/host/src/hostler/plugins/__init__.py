"""Plugin processes: started, contained, spoken with, watched and ended. Start at supervisor.py."""
