"""Two videos in, a number out."""
