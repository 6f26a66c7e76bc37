"""Tools that the model may call: one small file per tool."""
