"""Skills: folders of instructions and files that agents can be given, in the open Agent Skills format."""
