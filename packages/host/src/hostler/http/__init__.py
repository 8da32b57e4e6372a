"""HTTP: `/v1`, its authentication, its event streams and its documentation.

Read `endpoint.py` first: every route is one `Endpoint` of one table, and `gateway.py` is what stands in
front of each of them.
"""
