"""Settings, wiring (the only place that names concrete classes), embedded services, the process itself."""
