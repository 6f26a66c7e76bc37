"""From the edits of one step to a pending proposal on the stack of the others."""
