"""Features of a LeRobot dataset to be written: types of a frame's values, and rows of them as a parquet table."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscore.errors import OptionError
from stepscore.types import FloatArray, Frames

_DEFAULTS = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


class Feature(NamedTuple):
    """One feature of every frame.

    Attributes:
        dtype: ``video``, ``image``, ``string`` or a numpy dtype.
        shape: Shape of a value; (1,) for a scalar.
        is_default: Whether LeRobot requires it and the writer fills it in.
    """

    dtype: str
    shape: tuple[int, ...]
    is_default: bool = False

    @property
    def is_camera(self) -> bool:
        """Whether its values are images."""
        return self.dtype in ("video", "image")

    @property
    def is_number(self) -> bool:
        """Whether it is numeric and so has statistics."""
        return not self.is_camera and self.dtype != "string"

    @property
    def arrow(self) -> pa.DataType:
        """Arrow type in the data files, which hold no videos."""
        if self.dtype == "image":
            return _IMAGE
        scalar = pa.string() if self.dtype == "string" else pa.from_numpy_dtype(np.dtype(self.dtype))
        return scalar if self.shape == (1,) else pa.list_(scalar, self.shape[0])


def features_of(frame: Mapping[str, Any], images: Collection[str]) -> dict[str, Feature]:
    """Return features by name from a first frame, then those every dataset has; ``images`` become no videos."""
    unknown = sorted(set(images) - frame.keys())
    if unknown:
        raise OptionError(f"images names {unknown[0]!r}; a frame has {', '.join(sorted(frame))}.")
    features = {key: _feature(key, np.asarray(value), key in images) for key, value in frame.items()}
    return {**features, **{key: Feature(dtype, (1,), is_default=True) for key, dtype in _DEFAULTS.items()}}


def _feature(key: str, value: np.ndarray[Any, Any], as_images: bool) -> Feature:  # noqa: FBT001
    if key in _DEFAULTS or "/" in key:
        raise OptionError(
            f"A feature cannot be named {key!r}: {', '.join(_DEFAULTS)} are filled in, / is not allowed."
        )
    if value.dtype == np.uint8 and value.ndim == 3 and value.shape[2] == 3:
        return Feature("image" if as_images else "video", value.shape)
    if value.dtype.kind == "U" and value.ndim == 0:
        return Feature("string", (1,))
    if value.dtype.kind not in "biuf" or value.ndim > 1 or value.size == 0:
        raise OptionError(
            f"Feature {key!r} is {value.shape} {value.dtype}. Allowed: RGB images (h, w, 3) uint8, "
            "single texts, numbers, and 1-D arrays of numbers."
        )
    # Policies are trained in single precision, and Python's floats are double.
    dtype = "float32" if value.dtype == np.float64 else value.dtype.name
    return Feature(dtype, value.shape or (1,))


def packed(key: str, feature: Feature, value: Any) -> bytes:
    """Return a frame's number or numbers as bytes; OptionError where the shape is not the first frame's."""
    numbers = np.asarray(value)
    if (numbers.shape or (1,)) != feature.shape:
        raise OptionError(f"Feature {key!r} is {numbers.shape} in a frame; the first was {feature.shape}.")
    return numbers.astype(feature.dtype).tobytes()


def unpacked(feature: Feature, content: bytearray) -> np.ndarray[Any, Any]:
    """Return the rows of several frames from the bytes of :func:`packed`."""
    return np.frombuffer(content, dtype=feature.dtype).reshape(-1, *feature.shape)


def row_group(features: Mapping[str, Feature], rows: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return a table of the rows with every feature that is not a video; without rows where ``rows`` is empty."""
    arrays = {
        key: _array(feature, rows.get(key, ()))
        for key, feature in features.items()
        if feature.dtype != "video"
    }
    return pa.table(arrays)


def _array(feature: Feature, values: Sequence[Any]) -> pa.Array:
    if feature.dtype == "image":
        return pa.array([{"bytes": _png(value), "path": None} for value in values], _IMAGE)
    if feature.dtype == "string":
        return pa.array([str(value) for value in values], pa.string())
    numbers = np.asarray(values).astype(feature.dtype).reshape(len(values), *feature.shape)
    flat = pa.array(numbers.reshape(-1))
    return flat if feature.shape == (1,) else pa.FixedSizeListArray.from_arrays(flat, feature.shape[0])


def _png(image: Frames) -> bytes:
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(image).save(content, format="PNG", compress_level=1)
    return content.getvalue()


_MAX_IMAGE_SIDE = 150
"""Images are subsampled to about this many pixels a side before their statistics are computed."""


@dataclass(frozen=True)
class Stats:
    """Statistics over ``count`` samples, for each dimension of a feature."""

    min: FloatArray
    max: FloatArray
    mean: FloatArray
    std: FloatArray
    count: int

    @classmethod
    def of(cls, values: NDArray[np.generic]) -> Stats:
        """Return the statistics of rows of numbers, shape (n,) or (n, d)."""
        rows = values.reshape(len(values), -1).astype(np.float64)
        return cls(rows.min(axis=0), rows.max(axis=0), rows.mean(axis=0), rows.std(axis=0), len(rows))

    @classmethod
    def of_image(cls, image: Frames) -> Stats:
        """Return the statistics of the channels of one image, scaled to 0..1; the image counts as one sample."""
        step = max(1, max(image.shape[:2]) // _MAX_IMAGE_SIDE)
        pixels = image[::step, ::step].reshape(-1, 3) / 255.0
        return cls(pixels.min(axis=0), pixels.max(axis=0), pixels.mean(axis=0), pixels.std(axis=0), 1)

    @classmethod
    def merged(cls, parts: Sequence[Stats]) -> Stats:
        """Return the statistics of all samples of several parts, exactly: E[x^2] - E[x]^2 around the common mean."""
        count = sum(part.count for part in parts)
        weights = [part.count / count for part in parts]
        mean = np.sum([w * part.mean for w, part in zip(weights, parts, strict=True)], axis=0)
        variance = np.sum(
            [w * (part.std**2 + (part.mean - mean) ** 2) for w, part in zip(weights, parts, strict=True)],
            axis=0,
        )
        return cls(
            np.min([part.min for part in parts], axis=0),
            np.max([part.max for part in parts], axis=0),
            mean,
            np.sqrt(variance),
            count,
        )

    def as_lists(self, *, image: bool = False) -> dict[str, list[object]]:
        """Return the JSON form; channels of an image have shape (3, 1, 1)."""
        shape = (-1, 1, 1) if image else (-1,)
        numbers = {
            name: getattr(self, name).reshape(shape).tolist() for name in ("min", "max", "mean", "std")
        }
        return {**numbers, "count": [self.count]}
