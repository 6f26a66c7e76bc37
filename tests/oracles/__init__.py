"""What the vendors of the wires are known to refuse, as checks of whole request bodies."""
