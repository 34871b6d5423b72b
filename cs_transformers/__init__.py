"""A course on transformers: graded implementations, checks that say what is wrong, and everything around them."""

__version__ = "0.1.0"
