"""The doorbell: what managers tell each other between two looks into the database."""
