"""Preload and unload."""
