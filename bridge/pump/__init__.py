"""The life of a delivery: from its source through the router to its targets, and back as a confirmation."""
