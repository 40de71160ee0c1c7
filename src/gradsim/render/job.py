"""Structures and constants that the Python and the C++ of the rasterizers share."""

from __future__ import annotations

from gradsim.native.structures import FLOAT64, INT64, Constants, Enumeration, Structure

# Columns of the attributes of a corner, and how many there are: plain triangles have a colour (light) only.
ATTRIBUTE = Constants("attribute_column", light=0, highlight=3, uv=6)
ATTRIBUTE_COUNT = Constants("attribute_count", plain=3, textured=8)

# Columns of the integer arrays of a mesh.
EDGE = Enumeration("edge_column", ("start", "end", "face", "other_face"))
TEXTURE = Enumeration("texture_column", ("first_texel", "height", "width"))

# Pixels that one vector covers. The number of rows depends on the precision.
TILE = Constants("tile_size", columns=4, max_rows=4)

RASTER_JOB = Structure(
    "RasterJob",
    {
        "height": INT64,  # of the image [px]
        "width": INT64,
        "channels": INT64,  # 3: colour; 4: colour and coverage
        "vertex_count": INT64,
        "corner_count": INT64,
        "face_count": INT64,
        "edge_count": INT64,
        "texel_count": INT64,
        "frame_count": INT64,
        "attribute_count": INT64,  # of a corner
        "attribute_stride": INT64,  # between frames; 0: all frames share them
        "background_frame_stride": INT64,  # 0: all frames share it
        "background_pixel_stride": INT64,  # 0: one colour
        "near": FLOAT64,  # depth of the near plane [m]
        "options": "const double*",  # of the rasterizer
        "faces": "const int*",  # arrays of a `Connectivity`
        "corners": "const int*",
        "edges": "const int*",
        "two_sided": "const int*",
        "face_textures": "const int*",
        "textures": "const int*",
        "vertices": "const T*",  # tensors of `Triangles`
        "attributes": "const T*",
        "texels": "const T*",
        "background": "const T*",
        "image": "T*",  # [B, H, W, channels]
        "saved": "T*",  # values saved for the backward pass, [B, H, W, as many as the rasterizer declares]
        "front_triangle": "int*",  # an integer a pixel saved for the backward pass, [B, H, W] and a tile's overhang
        "lists": "int**",  # integers of varying number saved for the backward pass, by frame, [B]
        "list": "int*",  # free memory for the lists of the next frames
        "image_adj": "const T*",
        "vertices_adj": "T*",
        "attributes_adj": "T*",  # null: not needed
        "texels_adj": "T*",  # of each chunk, [chunks, texels, 3]; null: not needed
        "chunk_texels_adj": "T*",  # of the current chunk
        "scratch": "char*",
        "chunks_taken": "long long*",  # by all threads; chunks are runs of frames
        "chunk_count": INT64,
        "next_frame": INT64,  # to be processed
        "chunk_end": INT64,  # end of the frames of the current chunk
        "frames_left": INT64,  # of this launch
        "copies": INT64,  # whether pixels may be copied from another frame: there is no backward pass
        "drawn_frame": INT64,  # by this job before, -1: none
        "list_size": INT64,  # integers available
        "scratch_size": INT64,  # [bytes]
        "list_needed": INT64,  # by `next_frame`, which did not fit
        "scratch_needed": INT64,
        "non_finite": INT64,  # whether an adjoint of the vertices is NaN or infinite
    },
)
