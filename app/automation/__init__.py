"""The user's checks of proposals and hooks on events, and the processes that run them."""
