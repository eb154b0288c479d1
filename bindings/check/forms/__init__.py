"""The forms of the findings of a check: text, JSON and SARIF."""
