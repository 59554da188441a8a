"""Access control: policy, directory cache, admission, internal endpoints."""
