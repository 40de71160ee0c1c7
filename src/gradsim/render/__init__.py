"""Scene and trajectory to video: camera, shading, and three rasterizers."""
