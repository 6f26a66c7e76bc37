"""The review panes: the queue of proposals, the approval pane, and the decision keys."""
