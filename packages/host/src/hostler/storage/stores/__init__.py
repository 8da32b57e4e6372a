"""The facts: modules of functions that take a transaction first, each with its statements beside it."""
