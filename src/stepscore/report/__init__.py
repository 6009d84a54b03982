"""What people look at: the report page with leaderboards, subgoals, diagnosis and the explorer; plots for papers.

:func:`write_report` writes the page of some runs to a folder, from where it opens without a network.
``page_data.py`` assembles the one value it holds, whose type is ``web/src/contract.ts``, from parts that the other
``page_*.py`` make of what the runs' measures give; none of them computes a metric of its own.
"""

from stepscore.report.page.page import page_text, write_report

__all__ = ["page_text", "write_report"]
