"""Images and registries known to the cluster."""
