"""The check functions, one file per notebook: they run beside the student's code and hold no expected value."""
