"""Knowledge bases behind a port: those that the host keeps itself, or those of an embedder's service."""
