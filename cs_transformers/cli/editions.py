"""Commands that hand the course out."""
