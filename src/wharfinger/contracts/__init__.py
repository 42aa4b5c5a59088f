"""What travels between manager and agent, as typed models. JSON keys are camelCase."""
