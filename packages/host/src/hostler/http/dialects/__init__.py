"""What all standard interfaces share: how they answer, stream, start runs, take decisions and refuse.

Used by the folder of each dialect (`http/openai`, `http/ag_ui` ...); it knows none of them.
"""
