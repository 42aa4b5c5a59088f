"""The HTTP and SSE client of the manager's API, for the command line and others' programs."""
