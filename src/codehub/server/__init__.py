"""Server process: settings, wiring of concrete classes, embedded servers."""
