"""The terminal besides drawing: its colours and themes, its title and bell, and the editor that takes it over."""
