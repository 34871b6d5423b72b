"""Claims of speed and of learning, each a script that measures it; ``python -m benchmarks`` runs them."""
