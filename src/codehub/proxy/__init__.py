"""The front door: reads request heads, decides from memory, relays bytes."""
