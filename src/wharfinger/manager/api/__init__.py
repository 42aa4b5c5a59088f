"""The manager's interfaces: GraphQL, streams, the agents' ingest, health and metrics."""
