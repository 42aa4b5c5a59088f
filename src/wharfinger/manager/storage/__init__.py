"""The truth: tables, migrations and the runner of transactions."""
