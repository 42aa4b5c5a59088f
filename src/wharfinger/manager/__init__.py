"""The service with the API, the scheduler and the loops. One or several replicas."""
