"""Grading, for instructors: take in, run in a sandbox, judge, write results. The student edition has none of it."""
