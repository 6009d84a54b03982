"""Everything that reads files and replies from untrusted sources, within limits.

Datasets, checkpoints and servers may be damaged or hostile. Readers and clients pass their bytes through this
package first; the code behind them assumes checked values.
"""

from stepscore._untrusted.files import INT64 as INT64
from stepscore._untrusted.files import MAX_TEXT_BYTES as MAX_TEXT_BYTES
from stepscore._untrusted.files import check_hashable as check_hashable
from stepscore._untrusted.files import check_regular as check_regular
from stepscore._untrusted.files import kind_of_file as kind_of_file
from stepscore._untrusted.files import parse_json as parse_json
from stepscore._untrusted.files import parse_yaml as parse_yaml
from stepscore._untrusted.files import read_bytes as read_bytes
from stepscore._untrusted.files import read_json as read_json
from stepscore._untrusted.files import read_text as read_text
from stepscore._untrusted.files import read_yaml as read_yaml
from stepscore._untrusted.files import shown as shown

__all__ = [
    "INT64",
    "MAX_TEXT_BYTES",
    "check_hashable",
    "check_regular",
    "kind_of_file",
    "parse_json",
    "parse_yaml",
    "read_bytes",
    "read_json",
    "read_text",
    "read_yaml",
    "shown",
]
