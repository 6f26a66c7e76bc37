"""What is left out or summed up when the context is too short."""
