"""Commands of instructors who grade."""
