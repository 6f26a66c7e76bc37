"""Hooks on events: the user's commands, told of what happens. Nothing of what they do comes back."""
