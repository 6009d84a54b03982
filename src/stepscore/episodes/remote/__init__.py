"""Datasets on other machines, read by range: S3, Google Cloud Storage, the Hub and whatever else fsspec opens.

Each file of a dataset has a sparse copy in the user's cache folder, as large as the file itself and empty at first
(most file systems keep no blocks for what was never written). Byte ranges are fetched into it when they are
needed: of a video its header and the packets between a keyframe and the frames that are asked for, of a Parquet
file its footer and the columns that are read. So the readers of local files read it as it is, and no dataset is
copied.
"""

from stepscore.episodes.remote.cache import (
    FetchedDataset,
    cache_limit,
    cache_only,
    fetched_datasets,
    is_cache_only,
    remove_fetched,
)
from stepscore.episodes.remote.columns import RemoteImages, RemoteSignals, fetch_columns
from stepscore.episodes.remote.dataset import RemoteDataset, dataset_folder, remote_dataset
from stepscore.episodes.remote.filesystem import is_url
from stepscore.episodes.remote.hub import dataset_url
from stepscore.episodes.remote.hub_cache import snapshot_of
from stepscore.episodes.remote.ranges import RemoteFile
from stepscore.episodes.remote.video import RemoteVideo, offline_view

__all__ = [
    "FetchedDataset",
    "RemoteDataset",
    "RemoteFile",
    "RemoteImages",
    "RemoteSignals",
    "RemoteVideo",
    "cache_limit",
    "cache_only",
    "dataset_folder",
    "dataset_url",
    "fetch_columns",
    "fetched_datasets",
    "is_cache_only",
    "is_url",
    "offline_view",
    "remote_dataset",
    "remove_fetched",
    "snapshot_of",
]
