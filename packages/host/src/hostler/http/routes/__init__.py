"""The routes, one module per subject; `http.route_table` lists them."""
