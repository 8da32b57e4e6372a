"""Tools behind a port; none is shipped yet."""
