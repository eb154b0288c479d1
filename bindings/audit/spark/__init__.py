"""The audit as PySpark jobs; the only modules that import pyspark."""
