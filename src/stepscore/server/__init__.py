"""The report page served live, on this machine only.

:func:`make_app` is the web application: the page, rebuilt when a run has grown, and the videos of its runs by
number with byte ranges, which seeking needs. Nothing else is served. It needs the ``server`` extra; importing
this package imports no web framework.
"""

from stepscore.server.app import make_app, serve
from stepscore.server.live_page import LivePage

__all__ = ["LivePage", "make_app", "serve"]
