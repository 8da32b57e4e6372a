"""Skills: folders of instructions and files for agents, in the open Agent Skills format."""
