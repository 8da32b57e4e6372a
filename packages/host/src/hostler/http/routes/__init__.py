"""The routes, one module per resource; `http.route_table` lists them."""
