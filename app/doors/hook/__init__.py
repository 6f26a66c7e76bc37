"""Called by another agent before each of its tool calls: its edits wait here, and it waits for the user.

Only what an answer needs is loaded: the standard library, the store, and the rules for paths.
"""
