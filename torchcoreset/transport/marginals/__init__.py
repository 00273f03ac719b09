"""What the marginals of a plan may be, where they are not fixed: free or bounded point weights, and unmatched mass."""

from .marginals import Marginals, as_marginals, check_trim, is_choice

__all__ = ["Marginals", "as_marginals", "check_trim", "is_choice"]
