"""The OCI distribution client: token flow, resolve, manifests. The manager's alone."""
