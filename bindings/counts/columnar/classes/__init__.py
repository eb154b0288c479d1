"""Classes of messages that a topology treats alike, computed for whole columns."""
