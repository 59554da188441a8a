"""Child processes: supervision, launching, embedded servers."""
