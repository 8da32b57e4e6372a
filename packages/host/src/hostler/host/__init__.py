"""Build, configure and operate one host. Used by the HTTP layer and the commands."""
