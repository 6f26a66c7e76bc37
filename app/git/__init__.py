"""Git, run so that nothing of the repository that it is asked about is ever run."""
