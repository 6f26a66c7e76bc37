"""Skills: folders with a `SKILL.md`, of which the model knows the names and reads the rest when it needs it."""
