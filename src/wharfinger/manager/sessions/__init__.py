"""Sessions: asked for, brought to run the moment their images are there, ended, explained."""
