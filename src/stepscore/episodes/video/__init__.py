"""Views of one camera: of video files, image files and HDF5 datasets."""

from stepscore.episodes.video.cutting import VideoPart, cut_video
from stepscore.episodes.video.opening import open_video, video_stream
from stepscore.episodes.video.packets import packet_index
from stepscore.episodes.video.video_view import VideoView

__all__ = ["VideoPart", "VideoView", "cut_video", "open_video", "packet_index", "video_stream"]
