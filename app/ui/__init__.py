"""The Textual app: session and panes, its screens, and its dealings with the terminal."""
