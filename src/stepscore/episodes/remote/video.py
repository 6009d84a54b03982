"""A video on another machine: its header, then the packets between a keyframe and the frames that are asked for."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stepscore.episodes.remote.columns import RemoteImages
from stepscore.episodes.remote.ranges import Range, RemoteFile
from stepscore.episodes.sampling import check_indices
from stepscore.episodes.video.image_files import ImageSequenceView
from stepscore.episodes.video.packets import PacketIndex
from stepscore.episodes.video.video_view import FileSpan, VideoView, plan_ranges
from stepscore.episodes.view import View, ViewInfo
from stepscore.errors import VideoError
from stepscore.types import FloatArray, Frames

_END_BYTES = 1 << 16
"""Bytes of the beginning and of the end that the fingerprint is made of."""

_FIRST_PACKETS = 4
"""Packets at the beginning that opening a file looks at: the frame's size, and whether it is turned."""

_MAX_BOXES = 64


@dataclass(frozen=True)
class RemoteVideo:
    """One camera of one episode, in a video file on another machine.

    Frames, times and digest are those of the same file on this machine.

    Attributes:
        file: The file.
        span: The episode's frames in it; ``None`` for the whole file.
    """

    file: RemoteFile
    span: FileSpan | None = None

    def info(self) -> ViewInfo:
        """See :class:`stepscore.episodes.view.View`."""
        return self._opened().info()

    def timestamps(self) -> FloatArray:
        """See :class:`stepscore.episodes.view.View`."""
        return self._opened().timestamps()

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """See :class:`stepscore.episodes.view.View`; fetches the packets that these frames are decoded from."""
        view = self._opened()
        index, frames = view.frames_in_file()
        numbers = frames[check_indices(indices, len(frames), self.location())]
        self.file.fetch(_packet_ranges(index, sorted({int(number) for number in numbers})))
        try:
            return view.read(indices, size)
        except VideoError:
            # Some files are only decoded right from their beginning; a damaged one fails then, too.
            if self.file.offline or self.file.is_whole():
                raise
            self.file.fetch_all()
            return view.read(indices, size)

    def digest(self) -> bytes:
        """See :class:`stepscore.episodes.view.View`."""
        self._fetch_ends()
        return self._local().digest()

    def location(self) -> str:
        """Return the URL, with the seconds of the span where it does not begin with the file; fetches nothing."""
        return self._local().location().replace(str(self.file.path), self.file.url, 1)

    def on_disk(self) -> VideoView | None:
        """Return the view of the local file, where all of it has been fetched."""
        return self._local() if self.file.is_whole() else None

    def _local(self) -> VideoView:
        return VideoView(self.file.path, self.span, sparse=True)

    def _opened(self) -> VideoView:
        """Return the view once the header has been fetched, from which all of its frames are listed."""
        self._fetch_ends()
        view = self._local()
        if not self._fetch_header():
            self.file.fetch_all()
            return view
        index, _ = view.frames_in_file()
        first = index.packet_bytes[:_FIRST_PACKETS]
        self.file.fetch([(int(at), int(at + length)) for at, length in first])
        return view

    def _fetch_ends(self) -> None:
        self.file.fetch([(0, _END_BYTES), (self.file.size - _END_BYTES, self.file.size)])

    def _fetch_header(self) -> bool:
        """Fetch every box but the frames' data; return ``False`` where the file is not an mp4 with one table."""
        size, at = self.file.size, 0
        kinds: list[bytes] = []
        while at + 8 <= size and len(kinds) < _MAX_BOXES:
            path = self.file.fetch([(at, at + 16)])
            with path.open("rb") as file:
                file.seek(at)
                head = file.read(16)
            length, kind = struct.unpack(">I4s", head[:8])
            if length == 1 and len(head) == 16:
                (length,) = struct.unpack(">Q", head[8:])
            if (not kinds and kind != b"ftyp") or 0 < length < 8 or kind == b"moof":
                return False
            if kind != b"mdat":
                self.file.fetch([(at, at + length if length else size)])
            kinds.append(kind)
            at = at + length if length else size
        return b"moov" in kinds and at >= size


def offline_view(view: View) -> View:
    """Return the view of a remote file that fetches nothing; other views as they are."""
    if isinstance(view, RemoteVideo):
        return replace(view, file=replace(view.file, offline=True))
    if isinstance(view, ImageSequenceView) and isinstance(view.images, RemoteImages):
        images = replace(view.images, file=replace(view.images.file, offline=True))
        return replace(view, images=images)
    return view


def _packet_ranges(index: PacketIndex, numbers: Sequence[int]) -> list[Range]:
    """Return the bytes of the packets that frames are decoded from."""
    ranges: list[Range] = []
    for part in plan_ranges(index, numbers):
        packets = index.packet_bytes[part.first : part.last + 1]
        ranges += [(int(at), int(at + length)) for at, length in packets]
    return ranges
