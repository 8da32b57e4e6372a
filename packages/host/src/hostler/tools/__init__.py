"""Tools behind a port: what offers them, and the one service that agents reach them through."""
