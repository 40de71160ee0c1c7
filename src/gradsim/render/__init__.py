"""Rendering of a scene and its trajectory to a video: camera, shading, rasterizers and a path tracer."""
