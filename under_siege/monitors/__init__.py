"""What runs beside the load: pings, answer checks, CPU and memory, CPU speed."""
