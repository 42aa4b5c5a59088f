"""The steps from one shape of the database to the next. A step that was released never changes."""
