"""Scenes in three dimensions: the player of reports and notebooks, the viewer in the browser, exported files."""
