"""The engine of fake tensors: shapes without data, and patches so that torch trains with them."""
