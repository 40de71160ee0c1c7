"""From a video file to observations: background plate, moving objects, masks and centres."""
