"""Run commands and use files in workspaces that run, by ``inside request``."""
