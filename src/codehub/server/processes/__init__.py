"""Child processes: supervisor, launcher, embedded servers."""
