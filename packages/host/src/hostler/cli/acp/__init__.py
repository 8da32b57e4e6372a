"""`hostler acp`: an agent of the host as an agent of the Agent Client Protocol, for editors.

A translation between an editor on standard input and output and the HTTP API of a host: a session is a
conversation, a prompt an event, a permission request a pause. It keeps nothing that the host does not have.
(`runners/acp` is the other side: there, coding agents that speak the protocol are run by the host.)
"""
