"""Which messages go elsewhere when one topology becomes another, each with a shortest message that shows it."""
