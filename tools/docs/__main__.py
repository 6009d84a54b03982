"""Build the site, or rewrite ``docs/llms.txt``: ``python -m tools.docs [llms]``."""

from __future__ import annotations

import subprocess
import sys
import time

from tools.docs import llms, python_pages, stage
from tools.docs.built import check_site, missing_anchors
from tools.docs.links import check_links
from tools.docs.paths import ROOT, SITE, STAGE, source_pages


def main() -> None:
    """Do what the arguments ask for; exit with what is wrong, if anything is."""
    if sys.argv[1:] == ["llms"]:
        llms.PATH.write_text(llms.llms_text(), encoding="utf-8")
    elif not sys.argv[1:]:
        _build()
    else:
        sys.exit(f"{__doc__}")


def _build() -> None:
    sources = check_links([*source_pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"])
    if sources.broken:
        sys.exit("\n".join(sources.broken))
    if llms.PATH.read_text(encoding="utf-8") != llms.llms_text():
        sys.exit("docs/llms.txt is not current: python -m tools.docs llms")
    started = time.perf_counter()
    stage.stage()
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=STAGE,
        capture_output=True,
        text=True,
    )
    if built.returncode or "Warning" in built.stdout + built.stderr:
        sys.exit(f"{built.stdout}{built.stderr}")
    stage.collect()
    (SITE / "llms-full.txt").write_text(llms.full_text(), encoding="utf-8")
    seconds = time.perf_counter() - started
    site = check_site(SITE)
    packages = python_pages.packages()
    lost = [name for one in packages for name in missing_anchors(SITE, one.page, python_pages.anchors(one))]
    if site.faults or lost:
        sys.exit("\n".join([*site.faults, *(f"{name} is on no page" for name in lost)]))
    print(
        f"{sources.links} links of the sources and {site.links} of the site lead somewhere; nothing is remote."
    )
    names = sum(len(package.names) for package in packages)
    print(f"{names} public names of {len(packages)} packages are documented.")
    print(f"{site.pages} pages, {site.size / 1e6:.1f} MB, built in {seconds:.1f} s: {SITE.name}/index.html")


if __name__ == "__main__":
    main()
