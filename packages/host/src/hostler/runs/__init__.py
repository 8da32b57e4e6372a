"""Accept events, route them, dispatch runs and execute their attempts. Used by the host."""
