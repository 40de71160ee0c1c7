"""What a rasterizer is asked for, as native code reads it: the struct Job of kernels/native/frame.h, field by field."""

from __future__ import annotations

import ctypes

_COUNTS = ("height", "width", "channels", "vertex_count", "corner_count", "face_count", "edge_count")
_STRIDES = ("attribute_stride", "background_frame_stride", "background_pixel_stride")
_MODEL = ("faces", "corners", "edges", "marks", "textures", "vertices", "attributes", "texels", "background")
_RESULTS = ("image", "kept", "owners", "lists", "list")
_ADJOINTS = ("image_adj", "vertices_adj", "attributes_adj", "texels_adj", "piece_texels_adj")
_THREADS = ("scratch", "taken")
_PIECES = ("frame_count", "piece_count", "texel_count")
_PROGRESS = ("next", "last", "list_size", "scratch_size", "list_need", "scratch_need", "broken")


class Job(ctypes.Structure):
    """Counts, strides and addresses; all fields are eight bytes wide."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in (*_COUNTS, *_STRIDES)),
        ("near", ctypes.c_double),
        ("options", ctypes.c_double * 4),
        *((name, ctypes.c_void_p) for name in (*_MODEL, *_RESULTS, *_ADJOINTS, *_THREADS)),
        *((name, ctypes.c_int64) for name in (*_PIECES, *_PROGRESS)),
    )
