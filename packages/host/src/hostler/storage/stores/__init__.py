"""The stores: modules of functions that take a transaction first, each with a .sql file of its statements."""
