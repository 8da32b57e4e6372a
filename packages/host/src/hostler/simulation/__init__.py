"""A world from a seed: hosts, their plugins and disks in simulated time. Used by tests and commands."""
