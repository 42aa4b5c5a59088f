"""What several GraphQL documents ask for in the same way."""

from typing import Final

FAILURE: Final = """
fragment failed on Failure { failureClass: class failureMessage: message failureDetail: detail }
"""
"""What every union of a result can be instead."""
