"""Fake tensors: shapes without data, and what torch needs in order to train with them."""
