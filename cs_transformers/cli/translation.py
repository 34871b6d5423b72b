"""Commands of notebook 07: translation."""
