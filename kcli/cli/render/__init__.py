"""From rows and columns to what a person or a pipe reads."""
