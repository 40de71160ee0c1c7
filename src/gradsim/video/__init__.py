"""Videos from files and to files."""
