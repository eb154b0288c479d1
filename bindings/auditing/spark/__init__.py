"""The audit as PySpark jobs; only the modules of this package import pyspark."""
