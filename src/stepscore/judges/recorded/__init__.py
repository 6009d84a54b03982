"""The judge ``recorded``: curves and verdicts that another tool wrote, in the formats it knows."""
