"""Queries shared by replicas: terms of leadership, installation, archive orphans."""
