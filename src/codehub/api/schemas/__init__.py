"""What goes in and out, as the OpenAPI document shows it."""
