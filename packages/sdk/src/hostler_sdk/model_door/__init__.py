"""The model door: an OpenAI-compatible endpoint inside a plugin's process, for the models of its runs.

Programs that can talk to OpenAI reach the models of a run here. Each request becomes a call of the run, made
over the plugin's own connection, so that grant, journal, budget and replay are those of every other call.
Nothing of this package is imported before a run asks for its door.
"""
