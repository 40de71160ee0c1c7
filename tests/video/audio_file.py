"""A media file without a picture."""

import av
import numpy as np


def audio(path):
    with av.open(str(path), "w") as output:
        stream = output.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.rate = 44100
        output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path
