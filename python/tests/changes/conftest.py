"""What tests of changes have in common."""

import gc

import pytest


@pytest.fixture(autouse=True)
def _without_garbage():
    """A copy of a changed model is in a cycle: collect it, so that no later test records it."""
    yield
    gc.collect()
