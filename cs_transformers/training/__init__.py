"""Training: one loop for every task, schedules, checkpoints, metrics and recipes."""
