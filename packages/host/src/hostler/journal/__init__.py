"""Write, follow, resume, fork, replay and export the journals of runs. Used by runs, calls and pauses."""
