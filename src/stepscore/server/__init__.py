"""The report page served live, on this machine only.

:func:`make_app` is the web application: the page, rebuilt when a run has grown; its data again, so that an open page
follows a run; the videos of its runs by number with byte ranges, which seeking needs; and state and action of an
episode. Nothing else is served. It needs the ``server`` extra; importing this package imports no web framework.
"""

from stepscore.server.app import make_app
from stepscore.server.live_page import LivePage
from stepscore.server.serving import serve

__all__ = ["LivePage", "make_app", "serve"]
