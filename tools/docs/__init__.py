"""The documentation as a site: pages that are generated, links that are checked, ``llms.txt``.

``python -m tools.docs`` builds the site, ``python -m tools.docs llms`` rewrites ``docs/llms.txt``. Everything but the
build itself needs no more than the package, so that tests check it without the site's own tools.
"""
