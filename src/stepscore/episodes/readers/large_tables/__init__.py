"""Tables too large to hold: Parquet files that are read a row group at a time."""
