"""The task framework: work that outlives the request that started it."""
