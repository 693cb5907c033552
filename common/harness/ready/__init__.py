"""What has to be there before: Pythons, environments, strategies, the expected answer, the doctor."""
