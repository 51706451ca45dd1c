"""The smallest program, or the shortest trajectory, that still fails the same way (its README says how)."""
