"""Queries shared by replicas: terms of leadership, the installation, archive orphans."""
