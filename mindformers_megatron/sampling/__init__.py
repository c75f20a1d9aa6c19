"""Which tokens are sample i: pure functions of (plan, i)."""
