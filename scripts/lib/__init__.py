"""What the scripts beside this folder are made of. Standard library only: it runs before setup."""
