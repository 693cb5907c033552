"""What a server imports: its options, its web framework, how it answers and how it stops."""
