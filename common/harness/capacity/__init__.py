"""What is offered to a server to find out how much it can take."""
