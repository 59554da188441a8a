"""Homes as objects: the format, the object store, the storage job."""
