"""A task as it goes: live bars on a terminal, plain lines anywhere else."""
