"""Fakes of remote services for their runners: real HTTP servers on sockets, one module for each service."""
