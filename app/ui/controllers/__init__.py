"""What acts on the user's input in the app: decisions, commands, connecting to a model, attaching images."""
