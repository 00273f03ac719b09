"""What the marginals of a plan may be, where they are not fixed: free or bounded point weights, and unmatched mass."""

from .marginals import FREE, Marginals, as_marginals, check_trim, is_choice

__all__ = ["FREE", "Marginals", "as_marginals", "check_trim", "is_choice"]
