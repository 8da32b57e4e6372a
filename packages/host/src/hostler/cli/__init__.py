"""The commands. Each imports what it needs when it runs, so that `--help` is quick."""
