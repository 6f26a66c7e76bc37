"""Called by another agent before each of its tool calls: its edits wait here, and it waits for the user.

Imports only the modules that an answer needs: the standard library, the store, and the rules for paths.
"""
