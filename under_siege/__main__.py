"""Run the command-line program as `python -m under_siege`."""

from under_siege.cli import bench

if __name__ == "__main__":
    bench()
