"""What it runs on: processes, ports, environments, services, CPU and memory."""
