"""Tools that the host brings itself: commands in a sandbox, files of working folders, requests."""
