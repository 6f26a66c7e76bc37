"""Controllers of the app: decisions, commands, connecting to a model, attaching images."""
