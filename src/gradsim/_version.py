"""The version of gradsim. `pyproject.toml` reads it from here without importing the package."""

__version__ = "0.2.0"
