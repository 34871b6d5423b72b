"""Commands of notebook 08: detection."""
