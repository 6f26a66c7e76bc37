"""The user's checks of a proposal and hooks on events, and the processes that run them."""
