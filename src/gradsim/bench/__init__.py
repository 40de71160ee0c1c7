"""Speed, always as a ratio to a peer timed in the same run."""
