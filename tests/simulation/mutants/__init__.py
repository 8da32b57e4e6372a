"""Mutants: small defects in a copy of the product, to find out whether lives find them.

They are listed in the `.diff` files of this folder, by subject. `python -m simulation.mutants` (with `tests`
on the path) lives lives with one of them at a time until a life finds it.
"""
