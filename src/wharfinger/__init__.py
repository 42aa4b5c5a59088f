"""Wharfinger keeps the right container images on the right hosts of a compute cluster."""

__version__ = "0.1.0"
