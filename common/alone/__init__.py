"""What runs in the target's own Python without a server."""
