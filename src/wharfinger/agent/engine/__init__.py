"""The engine port and its adapters."""
