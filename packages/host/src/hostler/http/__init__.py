"""HTTP: `/v1`, authentication, event streams and the API's own documentation. Used by the commands.

Read `endpoint.py` first: every route is one `Endpoint` of one table, and `middleware.py` is what stands in
front of each of them.
"""
