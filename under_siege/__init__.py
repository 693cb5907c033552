"""Compare concurrency strategies under siege: the bench behind `under-siege` and `bench.py`."""
