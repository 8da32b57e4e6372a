"""Hold and park calls that wait for people, and apply their decisions. Used by runs and the host."""
