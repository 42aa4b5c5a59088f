"""Real parts on one machine: engines, registries, sample images, a fault proxy.

Used by the tests and by scripts/quickstart; not part of the package."""
