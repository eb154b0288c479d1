"""The steps that lead from one topology to another, in an order that loses no message on the way."""
