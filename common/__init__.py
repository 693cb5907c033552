"""What the servers of Under Siege share."""
