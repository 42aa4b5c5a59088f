"""The command line: commands over the client."""
