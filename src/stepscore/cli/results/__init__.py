"""Commands that read runs: metrics, comparisons, report, plots."""
