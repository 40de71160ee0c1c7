"""Reading and writing video files."""
