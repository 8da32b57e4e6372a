"""Operations of OpenAPI documents as tools: read once, bounded, called through the guard of `egress`."""
