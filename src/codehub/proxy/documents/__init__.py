"""Add the tab's script to HTML documents of workspaces."""
