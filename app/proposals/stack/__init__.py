"""From the edits of one step to a pending proposal on top of the others."""
