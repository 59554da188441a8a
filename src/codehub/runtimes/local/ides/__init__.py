"""IDEs of the local runtime that CodeHub installs itself: below its data directory, pinned, without a compiler."""
