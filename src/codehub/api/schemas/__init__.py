"""Schemas of requests and responses, for the OpenAPI document."""
