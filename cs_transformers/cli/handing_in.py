"""Commands of students who move between editions and hand in."""
