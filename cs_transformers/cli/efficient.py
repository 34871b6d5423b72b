"""Commands of notebook 10: efficient attention."""
