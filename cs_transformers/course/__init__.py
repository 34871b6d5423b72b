"""What surrounds the exercises: notebooks, the run of the whole course, editions."""
