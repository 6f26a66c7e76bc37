"""From a decision to bytes on disk, and back."""
