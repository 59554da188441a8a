"""CodeHub: development workspaces in the browser that cost nothing while nobody uses them."""

__version__ = "0.1.0"
