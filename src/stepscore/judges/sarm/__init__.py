"""The judge ``sarm``: stage and progress from a trained network, over a whole episode or online."""
