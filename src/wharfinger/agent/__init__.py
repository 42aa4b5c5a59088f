"""The process beside one container engine: does what the manager asks and reports events."""
