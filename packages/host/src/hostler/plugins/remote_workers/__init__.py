"""Remote workers: plugin processes elsewhere, behind one connection of a worker. Used by `host` and `cli`."""
