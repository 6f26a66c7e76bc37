"""signoff: the model proposes, the user signs off."""

__version__ = "0.2.0"
