"""HTTP: `/v1`, authentication, event streams and the API's own documentation. Used by the commands.

Read `endpoint.py` first: every route is an `Endpoint` of one table. `middleware.py` runs before each route.
"""
