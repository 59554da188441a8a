"""Tests of the Helm chart ``deploy/helm/codehub``: what it renders, what a cluster says to it, and installed for real.

``python -m tests.chart`` renews the snapshots of what it renders.
"""
