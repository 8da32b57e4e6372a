"""Write, follow, resume, fork, replay and export what a run did. Used by runs, calls and pauses."""
