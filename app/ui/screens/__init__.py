"""The screens over the workbench."""
