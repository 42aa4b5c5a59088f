"""The composition roots: nothing else knows which adapters are in use."""
