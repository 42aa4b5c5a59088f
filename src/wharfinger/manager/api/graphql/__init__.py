"""GraphQL: everything people do."""
