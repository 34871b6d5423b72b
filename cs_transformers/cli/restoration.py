"""Commands of notebook 09: restoration."""
