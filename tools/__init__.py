"""Programs for people who work on CodeHub: checks, the documentation's site, releases. Not packaged."""
