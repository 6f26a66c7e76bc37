"""Run git on the user's repository without running any program that the repository configures."""
