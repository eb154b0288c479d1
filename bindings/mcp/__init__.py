"""Answers for assistants that speak the Model Context Protocol: what `hashstar mcp` serves. Read-only."""
