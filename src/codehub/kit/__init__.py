"""What every room needs and what knows nothing of CodeHub: ids, clocks, tasks, logging."""
