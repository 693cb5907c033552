"""What servers and tools need: virtual environments, services, load tools, and the doctor."""
