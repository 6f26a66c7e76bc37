"""Tries the door of an installed agent: a scripted model asks it for an edit, and it is seen what comes of that."""
